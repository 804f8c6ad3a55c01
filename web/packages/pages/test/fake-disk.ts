import { isSameBytes, type KeyStore, type StoredKey } from '../src/content/index.ts'
import { hasFolder } from '../src/storage/live/has-folder.ts'
import type { WriteFile } from '../src/storage/page-folder.ts'
import type { KeyName, TabKeys } from '../src/storage/tab-keys.ts'

type Below = Map<string, FakeFolder | Blob>

/** A private file system for tests, with the behaviour that the code relies on. */
export class FakeFolder {
  readonly kind = 'directory'
  readonly below: Below = new Map()

  async getDirectoryHandle(name: string, { create = false } = {}): Promise<FakeFolder> {
    const found = this.below.get(name)
    if (found instanceof FakeFolder) return found
    if (found !== undefined) throw new DOMException('a file', 'TypeMismatchError')
    if (!create) throw new DOMException('nothing there', 'NotFoundError')
    const made = new FakeFolder()
    this.below.set(name, made)
    return made
  }

  async removeEntry(name: string, { recursive = false } = {}): Promise<void> {
    const found = this.below.get(name)
    if (found === undefined) throw new DOMException('nothing there', 'NotFoundError')
    if (found instanceof FakeFolder && found.below.size > 0 && !recursive) {
      throw new DOMException('not empty', 'InvalidModificationError')
    }
    this.below.delete(name)
  }

  async *entries(): AsyncGenerator<[string, { kind: string; getFile?: () => Promise<Blob> }]> {
    for (const [name, found] of [...this.below]) {
      yield [name, found instanceof FakeFolder ? found : { kind: 'file', getFile: async () => found }]
    }
  }

  async *keys(): AsyncGenerator<string> {
    yield* [...this.below.keys()]
  }

  get handle(): FileSystemDirectoryHandle {
    return this as unknown as FileSystemDirectoryHandle
  }

  /** All files below this folder, by path. */
  files(): string[] {
    return [...this.below].flatMap(([name, found]) =>
      found instanceof FakeFolder ? found.files().map((path) => `${name}/${path}`) : [name],
    )
  }
}

/** Writes below a fake root, until `bytesMax` is reached. */
export function fakeWriter(root: FakeFolder, quota = { bytesMax: Infinity }): WriteFile {
  return async (path, bytes) => {
    let folder = root
    for (const name of path.slice(0, -1)) folder = await folder.getDirectoryHandle(name, { create: true })
    quota.bytesMax -= bytes.length
    if (quota.bytesMax < 0) throw new DOMException('full', 'QuotaExceededError')
    const file = new File([bytes], path.at(-1) ?? '')
    folder.below.set(file.name, file)
    return file
  }
}

/** The keys of an origin. */
export class FakeKeys implements TabKeys {
  readonly #keys = new Map<string, StoredKey>()
  /** Whether the next calls of `signed` fail, as on a full disk. */
  isFull = false

  of([tab, page]: KeyName): KeyStore {
    const name = `${tab}/${page}`
    return {
      put: async (key) => void this.#keys.set(name, { key, head: null }),
      get: async () => this.#keys.get(name) ?? null,
      signed: async (head, before) => {
        const stored = this.#keys.get(name)
        if (this.isFull) throw new DOMException('full', 'QuotaExceededError')
        if (stored === undefined) return 'removed'
        const isSame = stored.head === null || before === null ? stored.head === before : isSameBytes(stored.head, before)
        if (!isSame) return 'overtaken'
        this.#keys.set(name, { ...stored, head })
        return 'stored'
      },
      remove: async () => void this.#keys.delete(name),
    }
  }

  async sweep(top: FileSystemDirectoryHandle): Promise<void> {
    for (const text of this.list()) {
      const name = text.split('/') as [string, string]
      if (!(await hasFolder(top, name))) await this.of(name).remove()
    }
  }

  list(): string[] {
    return [...this.#keys.keys()]
  }
}

/** Locks that end with the tab that holds them. */
export class FakeLocks {
  readonly #held: Map<string, FakeLocks>

  private constructor(held: Map<string, FakeLocks>) {
    this.#held = held
  }

  static ofBrowser(): FakeLocks {
    return new FakeLocks(new Map())
  }

  /** The locks as another tab of the same browser sees them. */
  inAnotherTab(): FakeLocks {
    return new FakeLocks(this.#held)
  }

  end(): void {
    for (const [name, holder] of this.#held) if (holder === this) this.#held.delete(name)
  }

  async query(): Promise<LockManagerSnapshot> {
    return { held: [...this.#held.keys()].map((name) => ({ name, mode: 'exclusive' as const, clientId: '' })), pending: [] }
  }

  async request(name: string, options: LockOptions, callback: (lock: Lock | null) => unknown): Promise<unknown> {
    if (this.#held.has(name)) {
      if (options.ifAvailable) return callback(null)
      throw new DOMException('waited too long', 'TimeoutError')
    }
    this.#held.set(name, this)
    const result = await callback({ name, mode: 'exclusive' })
    this.#held.delete(name)
    return result
  }

  get manager(): Pick<LockManager, 'request' | 'query'> {
    return this as unknown as LockManager
  }
}
