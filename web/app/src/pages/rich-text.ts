import { parseBody } from '@watchfire/pages/files'

/** Formatting that Markdown has too; a paste without any of it is plain text. */
const FORMATS = 'a[href], strong, b, em, i, h1, h2, h3, h4, h5, h6, li, table, blockquote, pre, code, span[style*="font-weight"]'
/** Longer pastes stay text: converting them would block the tab. */
const HTML_LENGTH_MAX = 2_000_000

/** Converts formatted text, as word processors and browsers put it on the clipboard, to Markdown. `null`: it is plain. */
export function markdownOf(html: string): string | null {
  if (html.length > HTML_LENGTH_MAX) return null
  const parsed = parseBody(html)
  for (const element of parsed.querySelectorAll('script, style, title, template, noscript, svg')) element.remove()
  if (parsed.querySelector(FORMATS) === null || isOfCodeEditor(parsed)) return null
  const text = withPlainStarts(linesOf(parsed))
  return text === '' ? null : text
}

/** Whether an editor of code has put it on the clipboard: one element that keeps its spaces, or has letters of one width, around all. */
function isOfCodeEditor({ children }: Element): boolean {
  const [only, ...others] = children
  const style = others.length > 0 ? '' : (only?.getAttribute('style') ?? '')
  return /white-space:\s*pre|font-family:[^;]*mono/i.test(style)
}

function childrenOf(node: Node): string {
  return [...node.childNodes].map(textOf).join('')
}

/** The text of an element, without needless space at its ends and between its blocks. */
function linesOf(element: Element): string {
  return childrenOf(element)
    .replace(/[ \t]+\n/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

function textOf(node: Node): string {
  if (node.nodeType === 3) return escaped((node.textContent ?? '').replaceAll(START, '').replace(/[ \t\n\r\f]+/g, ' '))
  return node.nodeType === 1 ? elementText(node as Element) : ''
}

function elementText(element: Element): string {
  const heading = /^H([1-6])$/.exec(element.tagName)
  if (heading !== null) return block(`${'#'.repeat(Number(heading[1]))} ${lineOf(element)}`)
  switch (element.tagName) {
    case 'BR':
      return '\n'
    case 'HR':
      return block('---')
    case 'A':
      return linkOf(element)
    case 'CODE':
      return codeOf(element.textContent ?? '')
    case 'SUB':
    case 'SUP':
      return raisedOf(element)
    case 'PRE':
      return block(fenced((element.textContent ?? '').replace(/\n$/, '')))
    case 'UL':
    case 'OL':
      return block(listOf(element))
    case 'BLOCKQUOTE':
      return block(prefixed(linesOf(element), '> ', '> '))
    case 'TABLE':
      return block(tableOf(element))
    case 'P':
    case 'DIV':
    case 'SECTION':
    case 'ARTICLE':
      return block(childrenOf(element).trim())
    default:
      return marked(element, childrenOf(element))
  }
}

/** Bold and italic text, by elements or by styles. Some programs wrap everything in a bold element that is not bold. */
function marked(element: Element, inner: string): string {
  const style = element.getAttribute('style') ?? ''
  const weight = /font-weight:\s*(\w+)/.exec(style)?.[1]
  const isBold = weight === undefined ? /^(?:B|STRONG)$/.test(element.tagName) : weight === 'bold' || Number(weight) >= 600
  const slant = /font-style:\s*(\w+)/.exec(style)?.[1]
  const isItalic = slant === undefined ? /^(?:I|EM)$/.test(element.tagName) : slant === 'italic'
  const mark = `${isBold ? '**' : ''}${isItalic ? '*' : ''}`
  if (mark === '' || inner.trim() === '' || inner.includes('\n')) return inner
  const [, before = '', words = '', after = ''] = /^(\s*)(.*?)(\s*)$/.exec(inner) ?? []
  return `${before}${mark}${words}${mark.split('').reverse().join('')}${after}`
}

/** Code in a line, between more backticks than any in it. Spaces keep backticks at its ends apart. */
function codeOf(text: string): string {
  const code = text.replace(/\s+/g, ' ')
  if (code.trim() === '') return code
  const inside = (code.match(/`+/g) ?? []).map(({ length }) => length)
  let count = 1
  while (inside.includes(count)) count += 1
  const marks = '`'.repeat(count)
  const space = /^`|`$|^ .* $/.test(code) ? ' ' : ''
  return `${marks}${space}${code}${space}${marks}`
}

const RAISED: Readonly<Record<string, readonly [plain: string, signs: string]>> = {
  SUP: ['0123456789+-=()ni', '⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ'],
  SUB: ['0123456789+-=()', '₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎'],
}

/** A raised or lowered part: as signs of Unicode, or as the element where there are none. */
function raisedOf(element: Element): string {
  const [plain, signs] = RAISED[element.tagName] ?? ['', '']
  const text = element.textContent ?? ''
  if (text !== '' && [...text].every((sign) => plain.includes(sign))) {
    return [...text].map((sign) => [...signs][plain.indexOf(sign)]).join('')
  }
  const name = element.tagName.toLowerCase()
  return `<${name}>${lineOf(element)}</${name}>`
}

function linkOf(element: Element): string {
  const address = element.getAttribute('href') ?? ''
  const words = lineOf(element)
  if (!/^(?:https?|mailto):/i.test(address) || words === '') return words
  return `[${words}](${address
    .replace(/[()\s]/g, encodeURIComponent)
    .replaceAll('(', '%28')
    .replaceAll(')', '%29')})`
}

function listOf(list: Element): string {
  const start = Number.parseInt(list.getAttribute('start') ?? '', 10)
  // Markdown has no negative numbers.
  const first = start >= 0 ? start : 1
  return [...list.children]
    .map((item, i) => {
      // Some programs put a nested list beside its item.
      if (/^[OU]L$/.test(item.tagName)) return prefixed(listOf(item), '  ', '  ')
      const marker = list.tagName === 'OL' ? `${first + i}. ` : '- '
      const text = childrenOf(item)
        .trim()
        .replace(/\n{2,}/g, '\n')
      return prefixed(text, marker, ' '.repeat(marker.length))
    })
    .join('\n')
}

function tableOf(table: Element): string {
  const rows = [...table.querySelectorAll('tr')].map((row) => [...row.children].map((cell) => lineOf(cell).replaceAll('|', '\\|')))
  const width = Math.max(0, ...rows.map((row) => row.length))
  if (width === 0) return ''
  const lineFor = (row: readonly string[]) => `| ${Array.from({ length: width }, (_, i) => row[i] ?? '').join(' | ')} |`
  const [head = [], ...rest] = rows
  return [lineFor(head), lineFor(Array<string>(width).fill('---')), ...rest.map(lineFor)].join('\n')
}

function lineOf(element: Element): string {
  return childrenOf(element).replace(/\s+/g, ' ').trim()
}

/** Code between fences that are longer than any in it. */
function fenced(code: string): string {
  const inside = code.match(/`{3,}/g) ?? []
  const fence = '`'.repeat(Math.max(3, ...inside.map(({ length }) => length + 1)))
  return `${fence}\n${code}\n${fence}`
}

function block(text: string): string {
  return `\n\n${text}\n\n`
}

function prefixed(text: string, first: string, rest: string): string {
  return text
    .split('\n')
    .map((line, i) => `${i === 0 ? first : rest}${line}`.trimEnd())
    .join('\n')
}

/** Before a sign with which a block would begin if it began a line. Which text begins a line is known at the end. */
const START = '\u0001'

function escaped(text: string): string {
  return text
    .replace(/[\\`*_[\]<]|&(?=#?\w+;)|~(?=~)/g, '\\$&')
    .replace(/^( ?)(#{1,6}(?= |$)|[-+](?= |$)|[-=]+ ?$|>)/, `$1${START}$2`)
    .replace(/^( ?\d{1,9})([.)](?: |$))/, `$1${START}$2`)
}

/** Makes the marked signs plain where they begin a line, perhaps after the signs of quotes and lists. */
function withPlainStarts(text: string): string {
  return text.replace(new RegExp(`^([ >]*(?:(?:[-*+]|\\d{1,9}[.)]) +)*(?:\\d{1,9})?)${START}`, 'gm'), '$1\\').replaceAll(START, '')
}
