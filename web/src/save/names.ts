/** Longest name on nearly every file system, in bytes. */
const NAME_BYTES_MAX = 255
/** Device names of Windows, with any extension. */
const RESERVED = /^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)/i
/** Control characters, and characters that make a name look different. */
const INVISIBLE = /[\p{Cc}\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/gu

/** A name without path separators that every system can write and that looks like what it is. */
export function safeName(name: string): string {
  const plain = name
    .toWellFormed()
    .normalize('NFC')
    .replace(INVISIBLE, '')
    .replace(/[/\\:*?"<>|]/g, '_')
    // Windows drops trailing dots and spaces, so two names could become one, or `..` could appear.
    .replace(/[. ]+$/, '')
    .replace(/^ +/, '')
  if (/^\.*$/.test(plain)) return '_'
  return cut(RESERVED.test(plain) ? `_${plain}` : plain, NAME_BYTES_MAX)
}

/** The same for the paths of one page, in order: each segment is safe, and no two paths are equal on any system. */
export function safePaths(paths: readonly string[]): string[] {
  const top = new Folder()
  return paths.map((path) => {
    let folder = top
    const parts = path.split('/')
    const safe = parts.map((part, i) => {
      const isFile = i === parts.length - 1
      const name = folder.nameFor(part, isFile)
      if (!isFile) folder = folder.below(part)
      return name
    })
    return safe.join('/')
  })
}

/** The names used in one folder. */
class Folder {
  readonly #taken = new Set<string>()
  readonly #folders = new Map<string, { name: string; folder: Folder }>()

  nameFor(part: string, isFile: boolean): string {
    const known = isFile ? undefined : this.#folders.get(part)
    if (known !== undefined) return known.name
    const name = this.#unused(safeName(part))
    this.#taken.add(sameness(name))
    if (!isFile) this.#folders.set(part, { name, folder: new Folder() })
    return name
  }

  below(part: string): Folder {
    return this.#folders.get(part)?.folder ?? new Folder()
  }

  #unused(name: string): string {
    const [, stem = name, ending = ''] = /^(.+?)(\.[^.]{1,16})?$/s.exec(name) ?? []
    for (let n = 2, next = name; ; n++) {
      if (!this.#taken.has(sameness(next))) return next
      const mark = ` (${n})${ending}`
      next = cut(stem, NAME_BYTES_MAX - mark.length) + mark
    }
  }
}

/** The form in which case-insensitive file systems compare names. */
function sameness(name: string): string {
  return name.normalize('NFC').toLowerCase()
}

const utf8 = new TextEncoder()

/** Shortens a name to that many bytes, and keeps a short extension. */
function cut(name: string, bytesMax: number): string {
  if (utf8.encode(name).length <= bytesMax) return name
  const ending = /\.[^.]{1,16}$/.exec(name)?.[0] ?? ''
  const room = bytesMax - utf8.encode(ending).length
  let kept = ''
  let bytes = 0
  for (const letter of name.slice(0, name.length - ending.length)) {
    bytes += utf8.encode(letter).length
    if (bytes > room) break
    kept += letter
  }
  return kept + ending
}
