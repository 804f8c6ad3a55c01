// Weighs the first load: everything that is fetched until the front door is painted for the first time, gzipped. Fails
// over the budget. What else a browser fetches for itself by then (the icon of the tab, the manifest) is counted too.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const BUDGET_BYTES = 25_000

const dist = new URL('../dist/', import.meta.url)
const read = (name) => readFileSync(fileURLToPath(new URL(name, dist)))
const html = read('index.html').toString()
// All that index.html names, but for an icon that only phones of one make ask for, when the application is installed.
const named = [...html.matchAll(/<(?:script|link)\b[^>]*?(?:src|href)="\/([^"]+)"/g)]
const asked = named.filter(([tag]) => !tag.includes('apple-touch-icon')).map(([, name]) => name ?? '')

let total = 0
for (const name of ['index.html', ...new Set(asked)]) {
  const size = gzipSync(read(name), { level: 9 }).length
  total += size
  console.log(`${String(size).padStart(8)}  ${name}`)
}
console.log(`${String(total).padStart(8)}  first load, gzip (budget ${BUDGET_BYTES})`)
if (total > BUDGET_BYTES) {
  console.error(`over the budget by ${total - BUDGET_BYTES} bytes`)
  process.exitCode = 1
}
