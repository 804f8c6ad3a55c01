// Builds packages for publishing: modules and their types in `dist`, one file for each source file.
//
//     node packages/build.js [NAME...]
import { spawnSync } from 'node:child_process'
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const PACKAGES = import.meta.dirname
/** A package comes after those that it needs. */
const FOLDERS = { client: '../../clients/javascript', pages: 'pages', element: 'element' }
/** TypeScript rewrites the imports of modules, but not the addresses of workers, and not the imports of types. */
const REWRITTEN = /((?:new URL\(|\bfrom |\bimport\()['"]\.[^'"]+)\.ts(['"])/g
/** Stands for the code of a worker, for bundlers that make no file of it. */
const WORKER_CODE = /'code:(\.[^']+)\.ts'/g
/** A type of TypeScript 5.7, and a name of it that older versions know too. */
const BYTES = ['Uint8Array<ArrayBuffer>', 'ReturnType<typeof Uint8Array.of>']
const COMMENT = /^\s*(?:\/\/.*|\/\*\*[\s\S]*?\*\/)\n/gm

for (const name of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(FOLDERS)) {
  const folder = path.join(PACKAGES, FOLDERS[name])
  const dist = path.join(folder, 'dist')
  rmSync(dist, { recursive: true, force: true })
  const { status } = spawnSync('npx', ['tsc', '-p', folder], { stdio: 'inherit', cwd: PACKAGES })
  if (status !== 0) process.exit(status ?? 1)
  for (const file of readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((one) => /\.(?:js|d\.ts)$/.test(one))) {
    const code = readFileSync(path.join(dist, file), 'utf8')
    const codeOf = (_, worker) =>
      JSON.stringify(
        readFileSync(path.join(dist, path.dirname(file), `${worker}.js`), 'utf8')
          .replace(COMMENT, '')
          .replace('export {};\n', ''),
      )
    const rewritten = code.replace(REWRITTEN, '$1.js$2').replace(WORKER_CODE, codeOf)
    const built = file.endsWith('.d.ts') ? rewritten.replaceAll(...BYTES) : rewritten
    if (built !== code) writeFileSync(path.join(dist, file), built)
  }
  for (const licence of ['LICENSE-APACHE', 'LICENSE-MIT']) copyFileSync(path.join(PACKAGES, '../..', licence), path.join(dist, licence))
}
