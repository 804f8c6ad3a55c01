// Weighs the first load: index.html and what it asks for at once, gzipped. Fails over the budget.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const BUDGET_BYTES = 30_000
const AIM_BYTES = 25_000

const dist = new URL('../dist/', import.meta.url)
const html = readFileSync(new URL('index.html', dist), 'utf8')
const asked = [...html.matchAll(/(?:src|href)="\/?(assets\/[^"]+)"/g)].map((match) => match[1] ?? '')

let total = 0
for (const name of ['index.html', ...new Set(asked)]) {
  const size = gzipSync(readFileSync(fileURLToPath(new URL(name, dist))), { level: 9 }).length
  total += size
  console.log(`${String(size).padStart(8)}  ${name}`)
}
console.log(`${String(total).padStart(8)}  first load, gzip (budget ${BUDGET_BYTES}, aim ${AIM_BYTES})`)
if (total > BUDGET_BYTES) {
  console.error(`over the budget by ${total - BUDGET_BYTES} bytes`)
  process.exitCode = 1
}
