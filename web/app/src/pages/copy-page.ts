import { textIn } from '@watchfire/pages/files'
import { indexOf } from '../files/directory.ts'
import type { DirectoryFile, PageContent, PageFile } from '../ui/site.ts'
import { EMPTY_DRAFT, type Draft, type Writing } from './draft.ts'

/** Longer text stays a file of the draft: a text field becomes slow with it. */
const TEXT_BYTES_MAX = 512 * 1024
const WRITING_OF: Readonly<Record<string, Writing>> = { md: 'markdown', markdown: 'markdown', txt: 'text', html: 'html', htm: 'html' }

/** A draft with the contents of a page: what was written becomes the text again, and all else its files. */
export async function draftOf(content: PageContent, name: string | null, isPrivate: boolean): Promise<Draft> {
  const files: readonly DirectoryFile[] = content.kind === 'file' ? [{ ...content, path: name ?? 'page.txt' }] : content.files
  const main = content.kind === 'file' ? (files[0] ?? null) : indexOf(files)
  const writing = main === null ? undefined : writingOf(main)
  const rest = await Promise.all(files.filter((file) => writing === undefined || file !== main).map(withBlob))
  if (main === null || writing === undefined) return { ...EMPTY_DRAFT, files: rest, isPrivate }
  return { ...EMPTY_DRAFT, writing, text: await textIn(await main.blob(), writing === 'html' ? 'html' : null), files: rest, isPrivate }
}

function writingOf({ path, size }: DirectoryFile): Writing | undefined {
  const extension = /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? ''
  return size <= TEXT_BYTES_MAX && Object.hasOwn(WRITING_OF, extension) ? WRITING_OF[extension] : undefined
}

async function withBlob({ path, blob }: DirectoryFile): Promise<PageFile> {
  return { path, blob: await blob() }
}
