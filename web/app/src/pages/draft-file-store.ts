import type { Draft } from './draft.ts'
import { withEarlier } from './draft-files.ts'

/** Copying larger files into the browser's storage would take long; the browser asks before their tab closes instead. */
const KEPT_BYTES_MAX = 20 * 1024 * 1024
const KEPT_FILES_MAX = 200
/**
 * A tab that was closed cannot remove its files, and its browser may open it again. So the next draft records that the tab is gone, and a
 * draft that comes this many milliseconds later removes the files.
 */
const KEPT_MS = 24 * 3_600_000
/** The longest time in which kept files are read. No page can be made meanwhile, and a database may never answer. */
const RESTORE_MS = 15_000
/** The longest wait of a reloaded tab for the lock that it held before, in milliseconds. */
const TAKE_BACK_MS = 1000
const STORE = 'drafts'
const ID = 'watchfire:draft-id'

type Files = Pick<Draft, 'files' | 'emptyFolders'>

interface Row extends Files {
  id: string
  /** When its tab was first found to be gone. */
  goneAt?: number
}

interface TabIds {
  /** The name of this tab's files. The tab holds a lock of that name while it lives. */
  readonly own: string
  /** The name that this tab remembers: its own, or that of the tab of which it is a duplicate. */
  readonly remembered: string
}

let ids: Promise<TabIds> | null = null
const tabIds = () => (ids ??= takeIds())

/** Keeps the files of this tab's draft over a reload. Returns whether they are kept. */
export async function keepFiles({ files, emptyFolders }: Files): Promise<boolean> {
  try {
    const isKept = files.length <= KEPT_FILES_MAX && files.reduce((sum, { blob }) => sum + blob.size, 0) <= KEPT_BYTES_MAX
    const { own: id } = await tabIds()
    const alive = new Set((await navigator.locks?.query())?.held?.map(({ name }) => name))
    await inStore('readwrite', (store) => {
      store.openCursor().onsuccess = ({ target }) => {
        const { result: cursor } = target as IDBRequest<IDBCursorWithValue | null>
        if (cursor === null) return
        const { goneAt, ...row } = cursor.value as Row
        if (alive.has(lockOf(row.id))) goneAt !== undefined && cursor.update(row)
        else if (goneAt === undefined) cursor.update({ ...row, goneAt: Date.now() })
        else if (goneAt < Date.now() - KEPT_MS) cursor.delete()
        cursor.continue()
      }
      if (isKept && files.length > 0) store.put({ id, files: [...files], emptyFolders: [...emptyFolders] } satisfies Row)
      else store.delete(id)
      return store.count()
    })
    return isKept
  } catch {
    return false
  }
}

/** Returns a change that adds the files that this tab's draft had before it was reloaded, or duplicated. */
export async function restore(): Promise<(now: Draft) => Draft> {
  const reading = tabIds()
    .then(({ remembered }) => inStore('readonly', (store) => store.get(remembered) as IDBRequest<Row | undefined>))
    .catch(() => undefined)
  const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), RESTORE_MS))
  const kept = await Promise.race([reading, late])
  return (now) => (kept === undefined ? now : withEarlier(now, kept))
}

async function takeIds(): Promise<TabIds> {
  const remembered = sessionStorage.getItem(ID)
  if (remembered !== null && (await hold(remembered))) return { own: remembered, remembered }
  const own = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  await hold(own)
  sessionStorage.setItem(ID, own)
  return { own, remembered: remembered ?? own }
}

const lockOf = (id: string) => `watchfire:draft:${id}`

/** Takes the lock of that name for as long as this tab lives. A browser without locks has it always. */
async function hold(id: string): Promise<boolean> {
  if (navigator.locks === undefined) return true
  return new Promise((resolve) => {
    const taken = () => {
      resolve(true)
      return new Promise<never>(() => {})
    }
    navigator.locks.request(lockOf(id), { signal: AbortSignal.timeout(TAKE_BACK_MS) }, taken).catch(() => resolve(false))
  })
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
