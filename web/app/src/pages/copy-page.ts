import { isBinary, kindOf, SNIFFED_BYTES, textIn } from '@watchfire/pages/files'
import { indexOf } from '../files/directory.ts'
import type { DirectoryFile, PageContent, PageFile } from '../ui/site.ts'
import { EMPTY_DRAFT, type Draft, type OriginalText, type Writing } from './draft.ts'
import { withPlainEnds } from './written.ts'

/** Longer text stays a file of the draft: a text field becomes slow with it. */
const TEXT_BYTES_MAX = 512 * 1024
const WRITING_OF: Readonly<Record<string, Writing>> = { md: 'markdown', markdown: 'markdown', txt: 'text', html: 'html', htm: 'html' }
/** The name of a file that has none. Its kind is found by its bytes. */
const NAMELESS = 'file'

/** A draft with the contents of a page: what was written becomes the text again, and all else its files. */
export async function draftOf(content: PageContent, name: string | null, isPrivate: boolean): Promise<Draft> {
  const { kind } = content
  const copy = { ...EMPTY_DRAFT, isPrivate, original: { kind, name, main: null } }
  if (kind === 'live') {
    const { feed, files } = content
    return { ...copy, files: await Promise.all(files.map(withBlob)), liveTitle: feed.title }
  }
  const files: readonly DirectoryFile[] = kind === 'file' ? [{ ...content, path: name ?? '' }] : content.files
  const first = kind === 'file' ? files[0] : indexOf(files)
  const main = first ? await textOf(first) : null
  const rest = await Promise.all(files.filter((file) => main === null || file !== first).map(withBlob))
  if (main === null) return { ...copy, files: rest }
  return { ...copy, writing: main.writing, text: main.text, files: rest, original: { kind, name, main } }
}

/** The text of a file that people write in the editor; `null` for all others. */
async function textOf({ path, size, blob }: DirectoryFile): Promise<OriginalText | null> {
  if (size > TEXT_BYTES_MAX) return null
  const whole = await blob()
  const bytes = new Uint8Array(await whole.arrayBuffer())
  const writing = writingOf(path, bytes)
  if (writing === null || isBinary(bytes)) return null
  const text = withPlainEnds(await textIn(whole, writing === 'html' ? 'html' : null))
  return { path, writing, text, bytes: [...bytes].map((byte) => String.fromCharCode(byte)).join('') }
}

function writingOf(path: string, bytes: Uint8Array): Writing | null {
  if (path === '') {
    const { kind } = kindOf(null, bytes.subarray(0, SNIFFED_BYTES))
    return kind === 'text' || kind === 'html' ? kind : null
  }
  const extension = /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? ''
  return Object.hasOwn(WRITING_OF, extension) ? (WRITING_OF[extension] ?? null) : null
}

async function withBlob({ path, blob }: DirectoryFile): Promise<PageFile> {
  return { path: path || NAMELESS, blob: await blob() }
}
