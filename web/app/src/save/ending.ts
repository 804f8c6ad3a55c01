import { kindOf, SNIFFED_BYTES } from '@watchfire/pages/files'
import { headOf } from '../files/reading.ts'
import type { SavedFile } from './save.ts'

/** Endings that are not the second half of their media type. */
const ENDINGS: Readonly<Record<string, string>> = {
  'image/jpeg': 'jpg',
  'image/svg+xml': 'svg',
  'audio/mpeg': 'mp3',
  'audio/mp4': 'm4a',
  'video/quicktime': 'mov',
}

/**
 * The name under which a file is saved. One without an ending gets that of its first bytes, so that programs open it. The name of a text
 * stays, because it may be `Makefile`, unless the file has none.
 */
export async function savedName(file: SavedFile, signal: AbortSignal): Promise<string> {
  const { name, isNameless = false } = file
  if (/[^.]\.[^.]+$/.test(name)) return name
  const kind = kindOf(null, await headOf(file, SNIFFED_BYTES, signal))
  if ('mime' in kind) return `${name}.${ENDINGS[kind.mime] ?? kind.mime.replace(/^.*\//, '')}`
  if (kind.kind === 'pdf') return `${name}.pdf`
  if (!isNameless) return name
  return kind.kind === 'html' ? `${name}.html` : kind.kind === 'text' ? `${name}.txt` : name
}
