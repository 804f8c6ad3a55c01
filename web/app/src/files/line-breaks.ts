import { frontMatterOf } from './front-matter.ts'

const LIST_ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/
/** A line that Markdown never joins to the line before it. A list begins within a paragraph only with a sign or with the number 1. */
const STARTS_BLOCK = /^ {0,3}(?:$|#{1,6}(?:\s|$)|[-*+](?:\s|$)|1[.)]\s+\S|>|\||[-=]+\s*$|(?:[-*_]\s*){3,}$)/
/** The start of a block of HTML, also within a paragraph. Other tags, and addresses in angle brackets, stand in a line. */
const STARTS_HTML =
  /^ {0,3}<(?:[!?]|\/?(?:address|article|aside|blockquote|body|center|col|dd|details|dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|nav|ol|optgroup|option|p|pre|script|search|section|style|summary|table|tbody|td|textarea|tfoot|th|thead|title|tr|track|ul)(?:[\s/>]|$))/i
/** A line with nothing but a tag: it begins a block of HTML where no paragraph goes on. */
const TAG_ALONE = /^ {0,3}<\/?[a-z][^<>]*>\s*$/i
/** The start of code. Its language follows the signs; backticks after backticks are code in a line. */
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/
/** The end of code: signs without a language. */
const FENCE_END = /^ {0,3}(`{3,}|~{3,})\s*$/
const HEADING = /^ {0,3}#{1,6}(?:\s|$)/
const QUOTE = /^(?: {0,3}> ?)+/

/**
 * Makes each line of a text a line of its page. Markdown joins the lines of a paragraph, which surprises people who do not know
 * it; two spaces at the end of a line keep the break, in every program that reads Markdown. Code, tables, HTML and front matter stay as they are.
 *
 * @param before the Markdown that was changed into this text, whose lines stay as they were
 */
export function withLineBreaks(text: string, before = ''): string {
  const kept = new Set(pairsOf(before))
  const front = text.slice(0, frontMatterOf(text).length)
  const lines = text.slice(front.length).split('\n').map(quotedLine)
  let fence: { readonly mark: string; readonly depth: number } | null = null
  let isInHtml = false
  let isInList = false
  let isInParagraph = false
  const broken = lines.map(({ line, rest, depth }, i) => {
    if (fence !== null && depth < fence.depth) fence = null
    const [, mark] = (fence === null ? FENCE : FENCE_END).exec(rest) ?? []
    if (mark !== undefined) {
      if (fence === null) fence = { mark, depth }
      else if (mark.startsWith(fence.mark)) fence = null
    }
    if (mark !== undefined || fence !== null) {
      isInParagraph = false
      return line
    }
    const isBlank = rest.trim() === ''
    isInHtml = !isBlank && (isInHtml || STARTS_HTML.test(rest) || (!isInParagraph && TAG_ALONE.test(rest)))
    isInList = !isBlank && (isInList || LIST_ITEM.test(rest))
    isInParagraph = !isBlank && !isInHtml && !HEADING.test(rest)
    const next = lines[i + 1]
    if (!isInParagraph || next === undefined || kept.has(`${line}\n${next.line}`)) return line
    return isJoined(rest, next.depth === depth ? next.rest : next.line, isInList) ? `${line}  ` : line
  })
  return front + broken.join('\n')
}

/** A line, and what follows the signs of quotes at its start. */
function quotedLine(line: string): { readonly line: string; readonly rest: string; readonly depth: number } {
  const [signs = ''] = QUOTE.exec(line) ?? []
  return { line, rest: line.slice(signs.length), depth: signs.split('>').length - 1 }
}

/** Each line with the one after it. */
function pairsOf(text: string): string[] {
  const lines = text.split('\n')
  return lines.slice(1).map((line, i) => `${lines[i]}\n${line}`)
}

/** Whether Markdown would show a line of a paragraph and the next one as one. */
function isJoined(line: string, next: string, isInList: boolean): boolean {
  if (/(?: {2}|\\|\r)$/.test(line) || /^(?: {4}|\t)/.test(line) || /^ {0,3}\|/.test(line)) return false
  return !STARTS_BLOCK.test(next) && !STARTS_HTML.test(next) && !(isInList && LIST_ITEM.test(next))
}
