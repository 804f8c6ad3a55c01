import { encodingOf } from '@watchfire/pages/files'
import { withLineBreaks } from '../files/line-breaks.ts'
import type { Draft, OriginalText } from './draft.ts'

/** The text in the editor as a file. A text that nobody changed has the bytes of its original. */
export function writtenFile({ writing, text, original }: Draft): Blob {
  const before = original?.main?.writing === writing ? original.main : null
  const lines = withPlainEnds(text)
  if (before !== null && lines === before.text) return new Blob([Uint8Array.from(before.bytes, (byte) => byte.charCodeAt(0))])
  const words = writing === 'markdown' ? withLineBreaks(lines, before?.text) : lines
  const ended = endOf(before) === '\n' ? words : words.replaceAll('\n', '\r\n')
  // A file that is stored as UTF-8 and declares another encoding needs the mark, which comes before the declaration.
  const isMarked = writing === 'html' && encodingOf(new TextEncoder().encode(ended), 'html').label !== 'utf-8'
  return new Blob([isMarked ? '\ufeff' : '', ended])
}

/** A text with the line ends of the editor. */
export function withPlainEnds(text: string): string {
  return text.replace(/\r\n?/g, '\n')
}

function endOf(before: OriginalText | null): string {
  return /\r?\n/.exec(before?.bytes ?? '')?.[0] ?? '\n'
}
