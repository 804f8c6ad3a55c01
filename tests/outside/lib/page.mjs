// Writes docs/reference/outside.md from the results of all suites.

const HEAD = `# Suites of others

Programs that other people wrote judge Watchfire. This page has their results. \`make outside\` runs the suites and writes
this page. \`make test-outside\` runs a short part of each suite in a minute, and writes nothing.

A case that a suite calls anything but passed has a sentence here, or the command fails. A suite that cannot run on a
machine is skipped, with the reason. Once the programs are built, the suites have 20 minutes together. The results and sentences are in [\`tests/outside\`](https://github.com/watchfire/watchfire/tree/main/tests/outside).
`

const NOT_YET = `## Not judged yet

- The WebSocket clients of \`watchfire share\` and \`get\`, by Autobahn's server: their framing is the library tungstenite.
`

/** The page for results: a list of suites, each with its parts. */
export function page(results) {
  const suites = results.filter(({ parts }) => parts.length > 0)
  return [HEAD, table(suites), ...suites.map(section), NOT_YET, conditions(suites)].join('\n')
}

function table(suites) {
  const rows = suites.flatMap(({ title, parts }) => parts.map((part) => row(title, part)))
  return ['| suite | judged | version | cases | passed | with a sentence |', '|---|---|---|---:|---:|---:|', ...rows, ''].join('\n')
}

function row(title, { judged, version, skipped, judgement }) {
  if (skipped) return `| ${title} | ${judged} | ${version ?? ''} | skipped | | |`
  const sentences = judgement.explained.reduce((sum, { cases }) => sum + cases.length, 0)
  return `| ${title} | ${judged} | ${version} | ${number(judgement.count)} | ${number(judgement.passed)} | ${number(sentences)} |`
}

const number = (count) => count.toLocaleString('en')

function section({ title, about, parts }) {
  return [`## ${title}\n`, `${about}\n`, ...parts.flatMap((part) => remarks(part, parts.length > 1))].join('\n')
}

function remarks({ judged, skipped, judgement }, isOneOfSeveral) {
  const prefix = isOneOfSeveral ? `${judged}: ` : ''
  if (skipped) return [`${prefix}Skipped: ${skipped}\n`]
  const open = judgement.unexplained.map(({ name }) => `- ${prefix}\`${name}\`: not passed, and not explained yet.`)
  const lines = [...judgement.explained.map(({ sentence, cases }) => `- ${prefix}${sentence} Cases: ${names(cases)}.`), ...open]
  return lines.length > 0 ? [...lines, ''] : []
}

const NAMES_MAX = 12

/** The names of cases, each once. */
function names(cases) {
  const counts = new Map()
  for (const name of cases) counts.set(name, (counts.get(name) ?? 0) + 1)
  const all = [...counts].map(([name, count]) => `\`${name.replaceAll('|', '\\|')}\`${count > 1 ? ` (${count} times)` : ''}`)
  const shown = all.slice(0, NAMES_MAX).join(', ')
  return all.length > NAMES_MAX ? `${shown} and ${all.length - NAMES_MAX} more` : shown
}

function conditions(suites) {
  const lines = suites.map(({ title, seconds, commit, machine }) => `| ${title} | ${commit} | ${machine} | ${seconds} |`)
  const all = suites.reduce((sum, { seconds }) => sum + seconds, 0)
  lines.push(`| all | | | ${number(all)} |`)
  return ['## Conditions\n', '| suite | commit | machine | seconds |', '|---|---|---|---:|', ...lines, ''].join('\n')
}
