#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A fake nvidia-cuda-mps-control. With -f it is the daemon, with a child in place of the server;
# without options it sends one command from standard input to the daemon. Notes in $FAKE_MPS:
#
#   started    a line for each start: process ids of daemon and server, CUDA_VISIBLE_DEVICES
#   quit       a line for each daemon that was asked to quit
#   fails      if it exists, the daemon does not start
#   stubborn   if it exists, the daemon does not react to commands
pipes=${CUDA_MPS_PIPE_DIRECTORY:-/nonexistent}
if [ "$1" = -f ]; then
  if [ -e "$FAKE_MPS/fails" ]; then
    echo "Failed to initialize GPU 0: exclusive mode" >"$CUDA_MPS_LOG_DIRECTORY/control.log"
    exit 1
  fi
  mkfifo "$pipes/command"
  sleep 600 &
  echo "$$ $! ${CUDA_VISIBLE_DEVICES-unset}" >>"$FAKE_MPS/started"
  touch "$pipes/control"
  read -r _ <"$pipes/command"
  kill $!
  wait
  rm "$pipes/control"
  echo "$$" >>"$FAKE_MPS/quit"
  exit 0
fi
read -r command
if [ ! -e "$pipes/control" ]; then
  echo "Cannot find MPS control daemon process"
  exit 1
fi
if [ "$command" = quit ] && [ ! -e "$FAKE_MPS/stubborn" ]; then
  echo "$command" >"$pipes/command"
fi
