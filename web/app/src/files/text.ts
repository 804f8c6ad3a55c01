import { sizeText } from '../messages/index.ts'
import { textIn, type Declaring } from '@watchfire/pages/files'
import { files } from '../messages/files.ts'

/** Longer text is shown only in part. */
export const TEXT_SHOWN_BYTES_MAX = 4 * 1024 * 1024

/** Characters per layout block. Layout takes quadratic time when directions alternate. */
export const BLOCK_LENGTH_MAX = 8192

/** Direction changes that one block may have. */
const TURNS_MAX = 10_000

export interface ShownText {
  text: string
  /** A sentence that says what is not shown; `null` when everything is. */
  cut: string | null
}

/** The text of a file, or the first part of a long one. */
export async function textOf(blob: Blob, declaring: Declaring | null = null): Promise<ShownText> {
  const text = await textIn(blob, declaring, TEXT_SHOWN_BYTES_MAX)
  return { text, cut: blob.size <= TEXT_SHOWN_BYTES_MAX ? null : cutSentence(blob.size) }
}

/** Says that only the first part of a long text is shown. */
export function cutSentence(bytes: number): string {
  return files('cut', { shown: sizeText(TEXT_SHOWN_BYTES_MAX), size: sizeText(bytes) })
}

/**
 * Splits the text between its lines into blocks that are laid out as they come into view. A line that is too long is a block of its own,
 * see `partsOf`. Lines end as files of Unix, Windows or an old Mac end them.
 */
export function blocksOf(file: string): string[] {
  const text = file.replace(/\r\n?/g, '\n')
  const blocks: string[] = []
  let start = 0
  while (text.length - start > BLOCK_LENGTH_MAX) {
    const last = text.lastIndexOf('\n', start + BLOCK_LENGTH_MAX)
    const end = last >= start ? last : text.indexOf('\n', start + BLOCK_LENGTH_MAX)
    if (end < 0) break
    blocks.push(text.slice(start, end))
    start = end + 1
  }
  blocks.push(text.slice(start))
  return blocks
}

/** The parts of a line that is too long for one block, which end between characters. */
export function partsOf(line: string): string[] {
  const parts: string[] = []
  for (let start = 0; start < line.length; ) {
    const end = start + BLOCK_LENGTH_MAX
    const splitsPair = end < line.length && /[\ud800-\udbff]/.test(line.charAt(end - 1))
    parts.push(line.slice(start, splitsPair ? end - 1 : end))
    start = splitsPair ? end - 1 : end
  }
  return parts
}

/** Whether the text has so many direction changes that laying it out in one piece would take minutes. */
export function mixesDirectionsTooOften(text: string): boolean {
  const turns = text.matchAll(/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc][^a-z\u0590-\u08ff]{0,9}[a-z]/gi)
  let count = 0
  for (const _ of turns) {
    count += 1
    if (count > TURNS_MAX) return true
  }
  return false
}
