// Writes the report of a run: its JSON from here, its page and picture by `watchfire-bench draw`.

import { execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url))

/** The commit that is measured, and whether files differ from it. */
export function commit() {
  const git = (...args) => execFileSync('git', args, { cwd: REPOSITORY, encoding: 'utf8' }).trim()
  try {
    const changes = git('status', '--porcelain', '--untracked-files=no')
    return `${git('rev-parse', '--short=8', 'HEAD')}${changes === '' ? '' : ' with local changes'}`
  } catch {
    return 'unknown'
  }
}

/** Writes the report into a folder of the repository. */
export async function writeReport(report, folder) {
  await mkdir(folder, { recursive: true })
  const file = path.join(folder, `${report.benchmark}.json`)
  await writeFile(file, `${JSON.stringify(report)}\n`)
  execFileSync(path.join(REPOSITORY, 'target/release/watchfire-bench'), ['draw', file], { stdio: 'inherit' })
  process.stderr.write(`written: ${path.relative(REPOSITORY, folder)}/${report.page ?? report.benchmark}.md\n`)
}

/** A target as one line for the terminal. */
export function targetLine({ what, value, bound, unit, decimals }) {
  const show = (number) => `${number.toFixed(decimals)} ${unit}`.trim()
  return `${what}: ${show(value)}, at most ${show(bound)}: ${value <= bound ? 'met' : 'MISSED'}`
}
