/** A line that Markdown never joins to the line before it. */
const STARTS_BLOCK = /^ {0,3}(?:$|#{1,6}(?:\s|$)|[-*+](?:\s|$)|\d{1,9}[.)](?:\s|$)|>|\||[-=]+\s*$|(?:[-*_]\s*){3,}$|<)/
/** The start of code. Its language follows the signs; backticks after backticks are code in a line. */
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/
/** The end of code: signs without a language. */
const FENCE_END = /^ {0,3}(`{3,}|~{3,})\s*$/
const HEADING = /^ {0,3}#{1,6}(?:\s|$)/

/**
 * Makes each line of a text a line of its page. Markdown joins the lines of a paragraph, which surprises people who do not know
 * it; two spaces at the end of a line keep the break, in every program that reads Markdown. Code, tables and HTML stay as they are.
 */
export function withLineBreaks(text: string): string {
  const lines = text.split('\n')
  let fence: string | null = null
  return lines
    .map((line, i) => {
      const [, mark] = (fence === null ? FENCE : FENCE_END).exec(line) ?? []
      if (mark !== undefined) {
        if (fence === null) fence = mark
        else if (mark.startsWith(fence)) fence = null
        return line
      }
      return fence === null && isJoined(line, lines[i + 1]) ? `${line}  ` : line
    })
    .join('\n')
}

/** Whether Markdown would show both lines as one. */
function isJoined(line: string, next: string | undefined): boolean {
  if (next === undefined || line.trim() === '' || /(?: {2}|\\|\r)$/.test(line)) return false
  if (HEADING.test(line) || /^(?: {4}|\t)/.test(line) || /^ {0,3}[|<]/.test(line)) return false
  if (/^ {0,3}>/.test(line) && /^ {0,3}>\s*\S/.test(next)) return true
  return !STARTS_BLOCK.test(next)
}
