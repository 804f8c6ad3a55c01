import { byteLength, cutName, cutText } from '@watchfire/pages/names'
import { plainName } from '@watchfire/pages/messages'
import { caseless, sameness } from './sameness.ts'

/** Longest name on nearly every file system, in bytes. */
const NAME_BYTES_MAX = 255
/** Device names of Windows, with any extension. */
const RESERVED = /^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)/i

/** A name without path separators that every system can write and that looks like what it is. */
export function safeName(name: string): string {
  const plain = sameness(plainName(name.toWellFormed()))
    .replace(/[/\\:*?"<>|]/g, '_')
    .replace(/^ +/, '')
  const ended = withoutEnd(plain)
  if (/^\.*$/.test(ended)) return '_'
  return withoutEnd(cutName(RESERVED.test(ended) ? `_${ended}` : ended, NAME_BYTES_MAX))
}

/** Windows drops trailing dots and spaces, so two names could become one, or `..` could appear. */
function withoutEnd(name: string): string {
  return name.replace(/[. ]+$/, '')
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
  /** The next number to try for each name that was taken, so that thousands of similar names take no minutes. */
  readonly #numbered = new Map<string, number>()
  readonly #folders = new Map<string, { name: string; folder: Folder }>()

  nameFor(part: string, isFile: boolean): string {
    const known = isFile ? undefined : this.#folders.get(part)
    if (known !== undefined) return known.name
    const name = this.#unused(safeName(part))
    this.#taken.add(caseless(name))
    if (!isFile) this.#folders.set(part, { name, folder: new Folder() })
    return name
  }

  below(part: string): Folder {
    return this.#folders.get(part)?.folder ?? new Folder()
  }

  #unused(name: string): string {
    const [, stem = name, ending = ''] = /^(.+?)(\.[^.]{1,16})?$/s.exec(name) ?? []
    const key = caseless(name)
    for (let n = this.#numbered.get(key) ?? 2, next = name; ; n++) {
      if (!this.#taken.has(caseless(next))) return next
      const mark = ` (${n})${ending}`
      next = cutText(stem, NAME_BYTES_MAX - byteLength(mark)) + mark
      this.#numbered.set(key, n + 1)
    }
  }
}
