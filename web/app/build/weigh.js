// Weighs the first load: everything that is fetched until the first paint of the home page, gzipped. Fails
// above the budget. Files that browsers fetch by themselves (favicon, manifest) are counted as well.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const BUDGET_BYTES = 25_000

const dist = new URL('../../dist/', import.meta.url)
const read = (name) => readFileSync(fileURLToPath(new URL(name, dist)))
const html = read('index.html').toString()
// Every file that index.html names, except the icon that only some phones fetch when the app is installed.
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
