import type { LiveSource } from '@watchfire/pages/live'
import { cutName, NAME_BYTES_MAX } from '@watchfire/pages/names'
import type { PageFile } from '../ui/site.ts'

/** The name of an entry that was written as Markdown. Its text is the entry, so the name is not shown. */
export const NOTE_NAME = 'entry.md'

/** The name of a text in the list of its page. */
export const TEXT_NAME = 'text.txt'

/** The longest entry of the form `text` in bytes, see docs/reference/protocols/live.md. */
const TEXT_BYTES_MAX = 65_536

/** The most entries of a page, see docs/reference/protocols/live.md. */
export const ENTRIES_MAX = 10_000

/** A text as an entry: Markdown is a file, and so is a text that is too long. */
export function textEntry(text: string, name: string | null): LiveSource {
  const blob = new Blob([text])
  if (name === null && blob.size <= TEXT_BYTES_MAX) return { form: 'text', name: '', text }
  const path = name ?? TEXT_NAME
  return { form: 'file', name: path, sources: [{ path, blob }] }
}

/** Files as entries: each file one, and each folder with all that is in it. */
export function fileEntries(files: readonly PageFile[]): LiveSource[] {
  const folders = new Map<string, PageFile[]>()
  const entries: LiveSource[] = []
  for (const file of files) {
    const [top = '', ...below] = file.path.split('/')
    const inFolder = { path: below.join('/'), blob: file.blob }
    const known = folders.get(top)
    if (below.length === 0) entries.push({ form: 'file', name: nameOf(top), sources: [{ path: top, blob: file.blob }] })
    else if (known !== undefined) known.push(inFolder)
    else {
      const sources = [inFolder]
      folders.set(top, sources)
      entries.push({ form: 'file', name: nameOf(top), sources })
    }
  }
  return entries
}

/** A name that is short enough for an entry. The extension stays. */
export function nameOf(name: string): string {
  return cutName(name, NAME_BYTES_MAX)
}
