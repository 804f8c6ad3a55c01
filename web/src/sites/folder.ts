import { pathOf, addressOf } from './origin.ts'

/** Files that a folder opens with, the first that is there. */
const INDEX_NAMES = ['index.html', 'index.htm']

/** What an address of a site leads to. */
export type Found<File> =
  | { kind: 'file'; file: File }
  /** A folder without its slash at the end: names in its page would mean something else. */
  | { kind: 'folder-elsewhere'; address: string }
  /** A folder that opens with nothing: what is in it, folders with a slash at the end. */
  | { kind: 'folder'; path: string; names: readonly string[] }
  | { kind: 'absent'; path: string | null }

/** The files of a page by their addresses. */
export class SiteFolder<File extends { readonly path: string }> {
  readonly #files = new Map<string, File>()
  /** Names that are written with letters of another form, such as those of macOS. */
  readonly #composed = new Map<string, File>()
  readonly #folders = new Map<string, Set<string>>([['', new Set()]])

  constructor(files: readonly File[]) {
    for (const file of files) {
      this.#files.set(file.path, file)
      this.#composed.set(file.path.normalize('NFC'), file)
      this.#plant(file.path)
    }
  }

  /** Whether it has something to open with. */
  get hasIndex(): boolean {
    return this.#indexOf('') !== null
  }

  find(address: string): Found<File> {
    const path = pathOf(address)
    if (path === null) return { kind: 'absent', path }
    const file = this.#fileAt(path)
    if (file !== null) return { kind: 'file', file }
    const folder = path.replace(/\/$/, '')
    const names = this.#folders.get(folder)
    if (names === undefined) return { kind: 'absent', path }
    if (folder !== '' && folder === path) return { kind: 'folder-elsewhere', address: `${addressOf(folder)}/` }
    const index = this.#indexOf(folder)
    if (index !== null) return { kind: 'file', file: index }
    return { kind: 'folder', path: folder, names: [...names].sort() }
  }

  #fileAt(path: string): File | null {
    return this.#files.get(path) ?? this.#composed.get(path.normalize('NFC')) ?? null
  }

  #indexOf(folder: string): File | null {
    for (const name of INDEX_NAMES) {
      const file = this.#files.get(folder === '' ? name : `${folder}/${name}`)
      if (file !== undefined) return file
    }
    return null
  }

  #plant(path: string): void {
    let name = path
    for (let at = path.lastIndexOf('/'); at >= 0; at = name.slice(0, -1).lastIndexOf('/')) {
      const folder = name.slice(0, at)
      const known = this.#folders.get(folder)
      const names = known ?? new Set()
      names.add(name.slice(at + 1))
      if (known !== undefined) return
      this.#folders.set(folder, names)
      name = `${folder}/`
    }
    this.#folders.get('')?.add(name)
  }
}
