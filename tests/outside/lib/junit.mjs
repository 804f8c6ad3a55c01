// Reads reports in the form of JUnit, which many suites write.

const ENTITIES = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

function text(escaped) {
  return escaped.replace(/<!\[CDATA\[([\s\S]*?)\]\]>/g, '$1').replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (whole, decimal, hex, name) => {
    if (decimal) return String.fromCodePoint(Number(decimal))
    if (hex) return String.fromCodePoint(Number.parseInt(hex, 16))
    return ENTITIES[name] ?? whole
  })
}

/** The cases of a report. Skipped cases are none. */
export function junitCases(xml) {
  const cases = []
  for (const [, attributes, , body = ''] of xml.matchAll(/<testcase\b((?:[^>"]|"[^"]*")*?)(\/>|>([\s\S]*?)<\/testcase>)/g)) {
    if (/<skipped\b/.test(body)) continue
    const name = text(/\bname="([^"]*)"/.exec(attributes)?.[1] ?? '')
    const failures = [...body.matchAll(/<(?:failure|error)\b((?:[^>"]|"[^"]*")*?)(?:\/>|>([\s\S]*?)<\/(?:failure|error)>)/g)]
    const found = failures.map(([, inside, content = '']) =>
      [/\bmessage="([^"]*)"/.exec(inside)?.[1] ?? '', content].map(text).join('\n').trim(),
    )
    cases.push({ name, isPassed: failures.length === 0, found: found.join('\n') })
  }
  return cases
}
