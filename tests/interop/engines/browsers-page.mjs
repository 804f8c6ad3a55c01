// Writes docs/reference/browsers.md from the results of the tests in every engine.

const HEAD = `# Browsers

The web client is tested in three engines: Chromium, Firefox and WebKitGTK, as Debian releases them. \`make test-engines\`
runs the same tests in each, lets every pair pass pages to each other, and writes this page.

Chromium is driven over its DevTools protocol, Firefox over WebDriver BiDi, and WebKitGTK over classic WebDriver on a display
of its own. Some tests need more than such a protocol can do, or a feature that the engine does not have. They count as lacking,
with the reason below.
`

const CONNECTIONS = `## Connections of a page

A page is shown without its scripts until its reader runs them. Without them, it opens nothing in any of these engines. With them, it
cannot send a request in any engine. These connections are left, which a content security policy does not cover:

| | Chromium since 152 | Firefox | WebKitGTK |
|---|---|---|---|
| WebRTC | blocked | **open** | not built in |
| Lookups of names (\`dns-prefetch\`) | blocked | blocked in the page, **open** in a frame that its scripts make | **open** |
| Connections without a request (\`preconnect\`, a click on a link that opens a window) | blocked | blocked | **open** |

Chromium blocks all of them with \`Connection-Allowlist\`. The others have nothing for that, and the page says so beside the button that
runs the scripts: they could send out the network address of the reader, and text that the reader enters. It would not help to remove
\`RTCPeerConnection\` from the page, because each frame that the scripts make of markup has one of its own, and no policy forbids such
frames.

Data that a site stores is gone with its tab in Chromium, whose frames can be without stored data (\`credentialless\`). In Firefox the
site finds it again until the person clears the data of websites. WebKitGTK shows a site one page at a time, where it can store nothing.
`

/** The page for the results of all engines and pairs. */
export function page({ engines, pairs }) {
  const all = Object.values(engines)
  return [
    HEAD,
    all.length === 0 ? '' : subjectTable(all),
    ...all.map(section),
    CONNECTIONS,
    pairs === undefined ? '' : pairTable(pairs),
    runTable([...all, ...(pairs === undefined ? [] : [{ title: 'Pairs', ...pairs }])]),
  ].join('\n')
}

function pairTable({ tests, notes }) {
  const rows = tests
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, result, why }) => `| ${name} | ${result}${why ? `: ${why}` : ''} |`)
  return `## Pairs

A page with a picture and a page of 6 MiB go each way between two browsers. A browser without WebRTC says on the page that
everything goes through the server.

| pair | result |
|---|---|
${rows.join('\n')}

Two browsers on one busy machine, while other tests ran, so these speeds are no benchmark:

${notes.map((note) => `- ${note}`).join('\n')}
`
}

function subjectTable(engines) {
  const subjects = [...new Set(engines.flatMap(({ subjects }) => Object.keys(subjects)))]
  const cell = ({ why, subjects }, subject) => (why === null ? countsOf(subjects[subject]) : 'not installed')
  const rows = subjects.map((subject) => `| ${subject} | ${engines.map((engine) => cell(engine, subject)).join(' | ')} |`)
  return `## Pages

| | ${engines.map(({ title, version }) => `${title} ${version ?? ''}`.trim()).join(' | ')} |
|---|${'---|'.repeat(engines.length)}
${rows.join('\n')}
`
}

function countsOf(results) {
  if (results === undefined) return 'not run'
  const count = (wanted) => results.tests.filter(({ result }) => result === wanted).length
  const parts = ['passed', 'failed', 'lacking'].filter((each) => each === 'passed' || count(each) > 0)
  return parts.map((each) => `${count(each)} ${each}`).join(', ')
}

function section({ title, subjects }) {
  const tests = Object.values(subjects).flatMap((each) => each.tests)
  const failed = tests.filter(({ result }) => result === 'failed').map(({ name }) => `- failed: *${name}*`)
  const reasons = new Map()
  for (const test of tests.filter(({ result }) => result === 'lacking')) {
    const why = test.why ?? 'no reason given'
    reasons.set(why, [...(reasons.get(why) ?? []), test])
  }
  const lacking = [...reasons].map(
    ([why, lacking]) => `- lacking, because ${why.replace(`${title}: `, '')}: ${lacking.map(({ name }) => `*${name}*`).join(', ')}`,
  )
  const notes = Object.values(subjects)
    .flatMap((each) => each.notes)
    .filter((note) => note.includes('vectors'))
    .map((note) => `- ${note}`)
  const lines = [...failed, ...lacking, ...notes]
  return lines.length === 0 ? '' : `### ${title}\n\n${lines.join('\n')}\n`
}

/** When and where each part ran: a part that is older than the tests is stale. The subjects of an engine may have run on different days. */
function runTable(parts) {
  const rows = parts
    .filter(({ commit }) => commit !== undefined)
    .map(({ title, date, subjects = {}, seconds, machine, commit }) => {
      const oldest = [date, ...Object.values(subjects).map((subject) => subject.date)].toSorted()[0]
      return `| ${title} | ${oldest === date ? date : `${oldest} to ${date}`} | after ${commit} | ${machine} | ${seconds} s |`
    })
  return `## Runs

| part | day of the results | code | machine | duration of the last run |
|---|---|---|---|---:|
${rows.join('\n')}
`
}
