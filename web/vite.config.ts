// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from "vite";

// Three files of fixed names: cmake/EmbedFiles.cmake puts them into the launcher, and a strict
// Content-Security-Policy can name them as 'self'.
export default defineConfig({
  base: "/",
  build: {
    target: "es2020",
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        assetFileNames: "app[extname]",
      },
    },
  },
});
