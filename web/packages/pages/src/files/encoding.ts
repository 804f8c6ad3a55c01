/** The languages in which a file can declare its encoding. Plain text can do so only with a byte order mark. */
export type Declaring = 'html' | 'css' | 'xml'

/** The encoding of a text, and how it is known. */
export interface Encoding {
  /** A label that `TextDecoder` supports. */
  readonly label: string
  /** `guess`: the file does not say it and is not UTF-8. It is the encoding that browsers assume in most countries. */
  readonly by: 'mark' | 'declaration' | 'content' | 'guess'
}

/** Bytes at the start of a file in which it can declare its encoding, and a little more. */
const DECLARED_WITHIN = 2048

const MARKS: readonly [label: string, ...bytes: number[]][] = [
  ['utf-8', 0xef, 0xbb, 0xbf],
  ['utf-16le', 0xff, 0xfe],
  ['utf-16be', 0xfe, 0xff],
]

/** Finds the encoding as browsers do: by the byte order mark, then by the declaration. Otherwise it is UTF-8 if that fits. */
export function encodingOf(bytes: Uint8Array, declaring: Declaring | null = null): Encoding {
  const mark = markOf(bytes)
  if (mark !== null) return { label: mark, by: 'mark' }
  const declared = declaring === null ? null : declaredIn(bytes, declaring)
  if (declared !== null) return { label: declared, by: 'declaration' }
  return isUtf8(bytes) ? { label: 'utf-8', by: 'content' } : { label: 'windows-1252', by: 'guess' }
}

/** The language in which a file of that name can declare its encoding. */
export function declaringOf(name: string): Declaring | null {
  const extension = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''
  if (extension === 'css') return 'css'
  if (/^x?html?$/.test(extension)) return 'html'
  return extension === 'xml' || extension === 'svg' ? 'xml' : null
}

/** The text of bytes, without a byte order mark. The last character may be incomplete, and is then left out. */
export function decoded(bytes: Uint8Array, { label }: Encoding): string {
  return new TextDecoder(label).decode(bytes, { stream: true })
}

/** The text of a file, or of its first `bytesMax` bytes. */
export async function textIn(blob: Blob, declaring: Declaring | null = null, bytesMax = Infinity): Promise<string> {
  const bytes = new Uint8Array(await blob.slice(0, Math.min(blob.size, bytesMax)).arrayBuffer())
  const encoding = encodingOf(bytes, declaring)
  return blob.size > bytesMax ? decoded(bytes, encoding) : new TextDecoder(encoding.label).decode(bytes)
}

/** Whether the bytes are UTF-8. The last character may be incomplete. */
function isUtf8(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
    return true
  } catch {
    return false
  }
}

/** Whether there are control characters that only binary files have. Text in UTF-16 needs a byte order mark. */
export function isBinary(bytes: Uint8Array): boolean {
  const mark = markOf(bytes)
  if (mark === null || mark === 'utf-8') return bytes.some((byte) => byte < 0x20 && !(byte >= 0x09 && byte <= 0x0d) && byte !== 0x1b)
  const text = new TextDecoder(mark).decode(bytes, { stream: true })
  return /[\0-\x08\x0e-\x1a\x1c-\x1f\ufffd]/.test(text)
}

function markOf(bytes: Uint8Array): string | null {
  const found = MARKS.find(([, ...mark]) => mark.every((byte, i) => bytes[i] === byte))
  return found?.[0] ?? null
}

function declaredIn(bytes: Uint8Array, declaring: Declaring): string | null {
  const start = new TextDecoder('latin1').decode(bytes.subarray(0, DECLARED_WITHIN))
  const declared = supported(declarationIn(start, declaring))
  // A declaration that could be read as ASCII is not in UTF-16.
  return declared?.startsWith('utf-16') ? 'utf-8' : declared
}

function declarationIn(start: string, declaring: Declaring): string | null {
  const xml = /^\s*<\?xml\s[^>]*?\bencoding\s*=\s*["']([\w.:-]+)["']/i.exec(start)?.[1] ?? null
  switch (declaring) {
    case 'css':
      return /^@charset "([\w.:-]+)";/.exec(start)?.[1] ?? null
    case 'xml':
      return xml
    case 'html': {
      const visible = start.replace(/<!--[\s\S]*?(?:-->|$)/g, '')
      for (const [tag] of visible.matchAll(/<meta[\s/][^>]*/gi)) {
        const declared = declaredByMeta(tag)
        if (declared !== null) return declared
      }
      return xml
    }
  }
}

/**
 * Both `<meta charset=x>` and `<meta http-equiv="Content-Type" content="text/html; charset=x">`. A description declares
 * nothing.
 */
function declaredByMeta(tag: string): string | null {
  const isHeader = /\shttp-equiv\s*=\s*["']?\s*content-type/i.test(tag)
  const attributes = isHeader ? tag : tag.replace(/\scontent\s*=\s*(?:"[^"]*"|'[^']*')/gi, ' ')
  return /[\s;"'/]charset\s*=\s*["']?\s*([\w.:-]+)/i.exec(attributes)?.[1] ?? null
}

/** The name by which `TextDecoder` knows an encoding; `null` when it does not. */
function supported(label: string | null): string | null {
  if (label === null) return null
  if (label.toLowerCase() === 'x-user-defined') return 'windows-1252'
  try {
    return new TextDecoder(label).encoding
  } catch {
    return null
  }
}
