import { startWorker } from '../browser/start-worker.ts'
import type { Bytes } from '../content/index.ts'
import type { OpenDisk } from './disk.ts'
import { PageFolder } from './page-folder.ts'
import { GRACE_PERIOD_MS, TabFolder, isTabLeftEvent } from './tab-folder.ts'
import { tabKeys } from './tab-keys.ts'
import type { WriteRequest, WriteReply } from './file-writer-worker.ts'

const TOP = 'watchfire'
/** The longest name of a page's folder that a file system allows. Only an inline CID is longer. */
const NAME_LENGTH_MAX = 200
const SWEEP_INTERVAL_MS = 1000
/** Set once anything was on disk. `main.tsx` reads it. */
const USED_KEY = 'watchfire:disk'

let entering: Promise<TabFolder | null> | null = null

/** The folder of this tab. `null` if the browser has no disk for it. */
function enter(): Promise<TabFolder | null> {
  entering ??= tryToEnter().catch(() => null)
  return entering
}

async function tryToEnter(): Promise<TabFolder> {
  const root = await navigator.storage.getDirectory()
  localStorage.setItem(USED_KEY, '1')
  const tab = await TabFolder.enter({
    session: sessionStorage,
    local: localStorage,
    locks: navigator.locks,
    top: await root.getDirectoryHandle(TOP, { create: true }),
    keys: tabKeys,
    now: () => Date.now(),
    newId: () => crypto.randomUUID(),
  })
  addEventListener('pagehide', () => tab.leave())
  addEventListener('pageshow', ({ persisted }) => persisted && tab.comeBack())
  keepSweeping(tab)
  return tab
}

/** Sweeps now, and again when something is due. */
function keepSweeping(tab: TabFolder): void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let wakesAt = Infinity
  const wake = (at: number) => {
    if (at >= wakesAt) return
    wakesAt = at
    clearTimeout(timer)
    timer = setTimeout(sweep, Math.max(0, at - Date.now()))
  }
  const sweep = () => {
    wakesAt = Infinity
    tab.sweep().then(
      (at) => at !== null && wake(Math.max(at, Date.now() + SWEEP_INTERVAL_MS)),
      () => {},
    )
  }
  // The tab still lives while it announces this, and may only be reloading.
  addEventListener('storage', (event) => {
    if (isTabLeftEvent(event)) wake(Date.now() + GRACE_PERIOD_MS + SWEEP_INTERVAL_MS)
  })
  sweep()
}

/** Removes the folders of tabs that have ended. Those that may come back are removed later. */
export function sweepDisk(): void {
  void enter().then((tab) => tab?.sweep().catch(() => {}))
}

export const openDisk: OpenDisk = async (page) => {
  if (page.length > NAME_LENGTH_MAX) return null
  const tab = await enter()
  if (tab === null) return null
  const name = tab.openPage(page)
  return new PageFolder(() => tab.folder(), [TOP, tab.id, name], {
    write: writeInWorker,
    estimate: () => navigator.storage.estimate(),
    key: () => tabKeys()?.of([tab.id, name]),
    onRemoved: () => tab.closePage(name),
  })
}

interface Writer {
  readonly worker: Worker
  readonly waiting: Map<number, (written: WriteReply) => void>
}

let writer: Promise<Writer> | null = null
let writings = 0

/** One worker writes for all pages of the tab. A site that forbids workers is not asked again. */
async function writeInWorker(path: readonly string[], bytes: Bytes): Promise<File> {
  writer ??= startWriter()
  const { worker, waiting } = await writer
  const writing: WriteRequest = { id: writings++, path, bytes }
  const written = await new Promise<WriteReply>((resolve) => {
    waiting.set(writing.id, resolve)
    worker.postMessage(writing, [bytes.buffer])
  })
  if ('file' in written) return written.file
  throw new DOMException(written.message, written.name)
}

async function startWriter(): Promise<Writer> {
  const worker = await startWorker(
    () => new Worker(new URL('./file-writer-worker.ts', import.meta.url), { type: 'module' }),
    'code:./file-writer-worker.ts',
  )
  const waiting: Writer['waiting'] = new Map()
  worker.onmessage = ({ data }: MessageEvent<WriteReply>) => {
    waiting.get(data.id)?.(data)
    waiting.delete(data.id)
  }
  // The worker failed. Pending writes must not wait forever.
  worker.onerror = () => {
    for (const [id, resolve] of waiting) resolve({ id, name: 'InvalidStateError', message: 'the writer has ended' })
    waiting.clear()
    writer = null
  }
  return { worker, waiting }
}
