// Prints how many crates of the workspace are compiled again after a change in one crate: for the program `watchfire`, and
// for all tests.
//
//   node tests/rebuilds.mjs [CRATE...]

import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
const PROGRAM = 'watchfire-cli'
const CARGO = process.env.CARGO || 'cargo'

const { packages } = JSON.parse(
  execFileSync(CARGO, ['metadata', '--no-deps', '--format-version', '1'], { encoding: 'utf8', maxBuffer: 2 ** 26 }),
)
/** The crates in the workspace that each depends on: for a build, and with those of its tests. */
const dependencies = (kinds) =>
  new Map(
    packages.map(({ name, dependencies }) => [
      name,
      dependencies.filter(({ path, kind }) => path && kinds.includes(kind)).map(({ name }) => name),
    ]),
  )
const builds = dependencies([null, 'build'])
const tests = dependencies([null, 'build', 'dev'])

const inProgram = reachable([PROGRAM], builds)
const asked = process.argv.slice(2)
const names = asked.length > 0 ? asked : packages.map(({ name }) => name)
const unknown = names.find((name) => !builds.has(name))
if (unknown) throw new Error(`cannot count for ${unknown}: the workspace has no such crate`)

const rows = names.map((name) => {
  const built = reachable([name], reversed(builds))
  return { name, program: [...built].filter((one) => inProgram.has(one)).length, tests: reachable([name], reversed(tests)).size }
})
console.log(`of ${inProgram.size}  of ${packages.length}\nprogram  tests  after a change in`)
for (const { name, program, tests } of rows.sort((a, b) => b.tests - a.tests || b.program - a.program)) {
  console.log(`${String(program).padStart(7)} ${String(tests).padStart(6)}  ${name}`)
}

/** These crates, and all to which a path leads. */
function reachable(names, edges) {
  const found = new Set(names)
  for (const name of found) for (const next of edges.get(name) ?? []) found.add(next)
  return found
}

function reversed(edges) {
  const result = new Map()
  for (const [from, all] of edges) for (const to of all) result.set(to, [...(result.get(to) ?? []), from])
  return result
}
