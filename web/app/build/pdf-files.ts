import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import type { Plugin } from 'vite'

/** The folders of pdf.js that its worker loads files from, with their names below `/pdf/`, and the files that it needs. */
const FOLDERS = [
  { from: 'wasm', to: '', files: /\.wasm$/ },
  { from: 'standard_fonts', to: 'fonts/', files: /\.(?:pfb|ttf)$/ },
  { from: 'cmaps', to: 'cmaps/', files: /\.bcmap$/ },
]

/** Adds the decoders, fonts and character maps that pdf.js loads when a PDF needs them. */
export function pdfFiles(): Plugin {
  const source = path.dirname(createRequire(import.meta.url).resolve('pdfjs-dist/package.json'))
  return {
    name: 'pdf-files',
    apply: 'build',
    async generateBundle() {
      for (const { from, to, files } of FOLDERS) {
        const names = (await readdir(path.join(source, from))).filter((name) => files.test(name))
        for (const name of names) {
          this.emitFile({ type: 'asset', fileName: `pdf/${to}${name}`, source: await readFile(path.join(source, from, name)) })
        }
      }
    },
  }
}
