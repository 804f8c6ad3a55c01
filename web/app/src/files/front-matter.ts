/** The fields about a text before it, between lines of three hyphens. */
const FRONT_MATTER = /^---[ \t]*\r?\n((?:[^\r\n]*\r?\n)*?)(?:---|\.\.\.)[ \t]*(?:\r?\n|$)/
const FIELD = /^([\w.-]+):(?:[ \t]+(.*))?$/

/** The front matter of a Markdown: its length in the text, and its markup, a table as on GitHub. Markdown would make it a heading. */
export function frontMatterOf(text: string): { readonly length: number; readonly markup: string } {
  const [whole = '', inner = ''] = FRONT_MATTER.exec(text) ?? []
  const lines = inner.split(/\r?\n/).filter((line) => line.trim() !== '' && !line.startsWith('#'))
  if (!FIELD.test(lines[0] ?? '')) return { length: 0, markup: '' }
  const fields: [name: string, value: string][] = []
  for (const line of lines) {
    const [, name, value = ''] = FIELD.exec(line) ?? []
    const last = fields.at(-1)
    if (name !== undefined) fields.push([name, value.replace(/^(["'])(.*)\1$/, '$2')])
    else if (last !== undefined) last[1] = `${last[1]} ${line.trim()}`.trim()
  }
  const row = (cell: 'th' | 'td', words: readonly string[]) =>
    `<tr>${words.map((each) => `<${cell}>${escaped(each)}</${cell}>`).join('')}</tr>`
  const names = fields.map(([name]) => name)
  const values = fields.map(([, value]) => value)
  return { length: whole.length, markup: `<table><thead>${row('th', names)}</thead><tbody>${row('td', values)}</tbody></table>\n` }
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
