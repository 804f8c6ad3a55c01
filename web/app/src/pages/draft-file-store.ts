import type { Draft } from './draft.ts'
import { withEarlier } from './draft-files.ts'

/** Copying larger files into the browser's storage would take long; the browser asks before their tab closes instead. */
const KEPT_BYTES_MAX = 20 * 1024 * 1024
const KEPT_FILES_MAX = 200
/** A tab that was closed cannot remove its files, so the next draft removes files of this age, in milliseconds. */
const KEPT_MS = 24 * 3_600_000
/** The longest time in which kept files are read. No page can be made meanwhile, and a database may never answer. */
const RESTORE_MS = 15_000
const STORE = 'drafts'
const ID = 'watchfire:draft-id'

type Files = Pick<Draft, 'files' | 'emptyFolders'>

interface Row extends Files {
  id: string
  at: number
}

/** Keeps the files of this tab's draft over a reload. Returns whether they are kept. */
export async function keepFiles({ files, emptyFolders }: Files): Promise<boolean> {
  try {
    const isKept = files.length <= KEPT_FILES_MAX && files.reduce((sum, { blob }) => sum + blob.size, 0) <= KEPT_BYTES_MAX
    const id = tabId()
    await inStore('readwrite', (store) => {
      store.openCursor().onsuccess = ({ target }) => {
        const { result: row } = target as IDBRequest<IDBCursorWithValue | null>
        if (row === null) return
        if ((row.value as Row).at < Date.now() - KEPT_MS) row.delete()
        row.continue()
      }
      if (isKept && files.length > 0) store.put({ id, at: Date.now(), files: [...files], emptyFolders: [...emptyFolders] } satisfies Row)
      else store.delete(id)
      return store.count()
    })
    return isKept
  } catch {
    return false
  }
}

/** Returns a change that adds the files that this tab's draft had before it was reloaded. */
export async function restore(): Promise<(now: Draft) => Draft> {
  const reading = inStore('readonly', (store) => store.get(tabId()) as IDBRequest<Row | undefined>).catch(() => undefined)
  const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), RESTORE_MS))
  const kept = await Promise.race([reading, late])
  return (now) => (kept === undefined ? now : withEarlier(now, kept))
}

/** A name for this tab, which it keeps over a reload. */
function tabId(): string {
  const known = sessionStorage.getItem(ID)
  if (known !== null) return known
  const id = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  sessionStorage.setItem(ID, id)
  return id
}

async function inStore<T>(mode: IDBTransactionMode, use: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const opening = indexedDB.open('watchfire-drafts', 1)
  opening.onupgradeneeded = () => void opening.result.createObjectStore(STORE, { keyPath: 'id' })
  const database = await resultOf(opening)
  try {
    const transaction = database.transaction(STORE, mode)
    const isDone = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve()
      transaction.onabort = () => reject(transaction.error ?? new DOMException('', 'AbortError'))
    })
    const result = resultOf(use(transaction.objectStore(STORE)))
    await isDone
    return await result
  } finally {
    database.close()
  }
}

function resultOf<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error ?? new DOMException('', 'UnknownError'))
  })
}
