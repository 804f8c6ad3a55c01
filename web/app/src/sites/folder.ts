import { sameness } from '../names/index.ts'
import { filePathOf, urlPathOf } from './origin.ts'

/** Files that a folder opens with; the first that exists is used. */
const INDEX_NAMES = ['index.html', 'index.htm']

/** The result of looking up a URL path in a site. */
export type Found<File> =
  | { kind: 'file'; file: File }
  /** A folder whose URL lacks the trailing slash, so that relative links in its page would resolve wrongly. */
  | { kind: 'redirect'; urlPath: string }
  /** A folder without an index file: the names in it, those of folders with a trailing slash. */
  | { kind: 'folder'; path: string; names: readonly string[] }
  | { kind: 'absent'; path: string | null }

/** The files of a page by URL path. */
export class SiteFolder<File extends { readonly path: string }> {
  readonly #files = new Map<string, File>()
  /** Files by the form of their path in which equal names are equal, because macOS writes names in another form. */
  readonly #same = new Map<string, File>()
  /** The names in each folder, by that form of its path. */
  readonly #folders = new Map<string, Set<string>>([['', new Set()]])

  constructor(files: readonly File[]) {
    for (const file of files) {
      this.#files.set(file.path, file)
      this.#same.set(sameness(file.path), file)
      this.#addToFolders(file.path)
    }
  }

  /** Whether the root folder has an index file. */
  get hasIndex(): boolean {
    return this.#indexOf('') !== null
  }

  find(urlPath: string): Found<File> {
    const path = filePathOf(urlPath)
    if (path === null) return { kind: 'absent', path }
    const file = this.#fileAt(path)
    if (file !== null) return { kind: 'file', file }
    const folder = path.replace(/\/$/, '')
    const names = this.#folders.get(sameness(folder))
    if (names === undefined) return { kind: 'absent', path }
    if (folder !== '' && folder === path) return { kind: 'redirect', urlPath: `${urlPathOf(folder)}/` }
    const index = this.#indexOf(folder)
    if (index !== null) return { kind: 'file', file: index }
    return { kind: 'folder', path: folder, names: [...names].sort() }
  }

  #fileAt(path: string): File | null {
    return this.#files.get(path) ?? this.#same.get(sameness(path)) ?? null
  }

  #indexOf(folder: string): File | null {
    for (const name of INDEX_NAMES) {
      const file = this.#fileAt(folder === '' ? name : `${folder}/${name}`)
      if (file !== null) return file
    }
    return null
  }

  #addToFolders(path: string): void {
    let name = path
    for (let at = path.lastIndexOf('/'); at >= 0; at = name.slice(0, -1).lastIndexOf('/')) {
      const folder = name.slice(0, at)
      const known = this.#folders.get(sameness(folder))
      const names = known ?? new Set()
      names.add(name.slice(at + 1))
      if (known !== undefined) return
      this.#folders.set(sameness(folder), names)
      name = `${folder}/`
    }
    this.#folders.get('')?.add(name)
  }
}
