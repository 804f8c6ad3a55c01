import { isSameBytes, type Bytes, type KeyStore, type Signed, type StoredKey } from '../../content/index.ts'
import type { KeyName, TabKeys } from '../tab-keys.ts'
import { hasFolder } from './has-folder.ts'

const DATABASE = 'watchfire-keys'
const STORE = 'keys'
/** A database may never answer. Then the key counts as not stored. */
const ANSWER_MS = 10_000

interface Row extends StoredKey {
  readonly tab: string
  readonly page: string
}

/** The keys in IndexedDB. */
export const keyDatabase: TabKeys = {
  of: keyStore,
  async sweep(top) {
    for (const name of await names()) if (!(await hasFolder(top, name))) await keyStore(name).remove()
  },
}

function names(): Promise<KeyName[]> {
  return inStore('readonly', (store, done) => {
    store.getAllKeys().onsuccess = ({ target }) => done((target as IDBRequest<IDBValidKey[]>).result as unknown as KeyName[])
  })
}

function keyStore([tab, page]: KeyName): KeyStore {
  const stored = (store: IDBObjectStore, use: (row: Row | undefined) => void) => {
    store.get([tab, page]).onsuccess = ({ target }) => use((target as IDBRequest<Row | undefined>).result)
  }
  return {
    put: (key) =>
      inStore('readwrite', (store, done) => {
        store.put({ tab, page, key, head: null } satisfies Row)
        done(undefined)
      }),
    get: () => inStore('readonly', (store, done) => stored(store, (row) => done(row ?? null))),
    signed: (head, before) =>
      inStore<Signed>('readwrite', (store, done) =>
        stored(store, (row) => {
          if (row === undefined) return done('removed')
          if (!isSameHead(row.head, before)) return done('overtaken')
          store.put({ ...row, head } satisfies Row)
          done('stored')
        }),
      ),
    remove: () =>
      inStore('readwrite', (store, done) => {
        store.delete([tab, page])
        done(undefined)
      }),
  }
}

function isSameHead(a: Bytes | null, b: Bytes | null): boolean {
  return a === null || b === null ? a === b : isSameBytes(a, b)
}

/**
 * Runs a transaction, which sees the changes of all earlier ones, also of those in other tabs. The result is that of the last call of
 * `done`, when all changes are on the disk.
 */
function inStore<T>(mode: IDBTransactionMode, use: (store: IDBObjectStore, done: (result: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new DOMException('the database does not answer', 'TimeoutError')), ANSWER_MS)
    const fail = (error: DOMException | null) => {
      clearTimeout(timer)
      reject(error ?? new DOMException('', 'AbortError'))
    }
    const opening = indexedDB.open(DATABASE, 1)
    opening.onupgradeneeded = () => void opening.result.createObjectStore(STORE, { keyPath: ['tab', 'page'] })
    opening.onerror = () => fail(opening.error)
    opening.onsuccess = () => {
      const database = opening.result
      const transaction = database.transaction(STORE, mode, { durability: 'strict' })
      let result: T
      transaction.oncomplete = () => {
        database.close()
        clearTimeout(timer)
        resolve(result)
      }
      transaction.onabort = () => {
        database.close()
        fail(transaction.error)
      }
      use(transaction.objectStore(STORE), (given) => (result = given))
    }
  })
}
