// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from "vite";

// Builds three files with fixed names: cmake/EmbedFiles.cmake embeds them into the launcher, and a
// strict Content-Security-Policy allows them as 'self'.
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
