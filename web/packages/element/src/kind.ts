/** The view of a file. `other`: it can only be saved. */
export type Kind = 'picture' | 'video' | 'sound' | 'html' | 'text' | 'other'

/** Bytes of a file that decide how it is shown. */
export const SNIFFED_BYTES = 512

/** The first bytes of types of files, as characters with the same codes. `?` is any byte. The first row that fits decides. */
const SIGNATURES: readonly (readonly [start: string, kind: Kind, type: string])[] = [
  ['\x89PNG\r\n\x1a\n', 'picture', 'image/png'],
  ['\xff\xd8\xff', 'picture', 'image/jpeg'],
  ['GIF8', 'picture', 'image/gif'],
  ['RIFF????WEBP', 'picture', 'image/webp'],
  ['????ftypavif', 'picture', 'image/avif'],
  ['????ftypavis', 'picture', 'image/avif'],
  // Pictures of phones (HEIC) and of cameras, which most browsers cannot show.
  ['????ftyphe', 'other', 'application/octet-stream'],
  ['????ftypmif', 'other', 'application/octet-stream'],
  ['????ftypmsf', 'other', 'application/octet-stream'],
  ['????ftypcrx', 'other', 'application/octet-stream'],
  ['????ftypM4A', 'sound', 'audio/mp4'],
  ['????ftyp', 'video', 'video/mp4'],
  ['\x1aE\xdf\xa3', 'video', 'video/webm'],
  ['OggS', 'sound', 'audio/ogg'],
  ['ID3', 'sound', 'audio/mpeg'],
  ['\xff\xfb', 'sound', 'audio/mpeg'],
  ['fLaC', 'sound', 'audio/flac'],
  ['RIFF????WAVE', 'sound', 'audio/wav'],
]

/** The kind and the media type of a file that begins with these bytes. Its name is not believed. */
export function kindOf(start: Uint8Array): { kind: Kind; type: string } {
  const letters = String.fromCharCode(...start.subarray(0, SNIFFED_BYTES))
  for (const [signature, kind, type] of SIGNATURES) {
    if ([...signature].every((letter, i) => letter === '?' || letter === letters[i])) return { kind, type }
  }
  if (/^(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html)\b/i.test(letters)) return { kind: 'html', type: 'text/html' }
  return letters.includes('\0') ? { kind: 'other', type: 'application/octet-stream' } : { kind: 'text', type: 'text/plain' }
}
