import type { Bytes } from '../content/index.ts'
import type { Disk, OpenDisk } from './disk.ts'
import { PageFolder } from './page-folder.ts'
import { GRACE_MS, Tab, tellsOfLeaving } from './tab.ts'
import type { Writing, Written } from './writer.ts'

const TOP = 'watchfire'
/** Longest name of a page that a file system may have; only a CID that is its own content is longer. */
const NAME_LENGTH_MAX = 200
const SWEEP_INTERVAL_MS = 1000
/** Set once there has been anything of ours on disk; `main.tsx` looks for it. */
const USED_KEY = 'watchfire:disk'

let entering: Promise<Tab | null> | null = null

/** This tab, once it has a folder; `null` where the browser gives none. */
function enter(): Promise<Tab | null> {
  return (entering ??= tryToEnter().catch(() => null))
}

async function tryToEnter(): Promise<Tab> {
  const root = await navigator.storage.getDirectory()
  localStorage.setItem(USED_KEY, '1')
  const tab = await Tab.enter({
    session: sessionStorage,
    local: localStorage,
    locks: navigator.locks,
    top: await root.getDirectoryHandle(TOP, { create: true }),
    now: () => Date.now(),
    newId: () => crypto.randomUUID(),
  })
  addEventListener('pagehide', () => tab.leave())
  addEventListener('pageshow', ({ persisted }) => persisted && tab.comeBack())
  keepSweeping(tab)
  return tab
}

/** Sweeps now, and when something is due. */
function keepSweeping(tab: Tab): void {
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
    tab.sweep().then((at) => at !== null && wake(Math.max(at, Date.now() + SWEEP_INTERVAL_MS)), () => {})
  }
  // It still lives while it says so, and may only be reloading.
  addEventListener('storage', (event) => {
    if (tellsOfLeaving(event)) wake(Date.now() + GRACE_MS + SWEEP_INTERVAL_MS)
  })
  sweep()
}

/** Removes what tabs that ended have left on disk. */
export function sweep(): void {
  void enter()
}

export const openDisk: OpenDisk = async (page) => {
  if (page.length > NAME_LENGTH_MAX) return null
  const tab = await enter()
  if (tab === null) return null
  const name = tab.openPage(page)
  const estimate = () => navigator.storage.estimate()
  const folder = new PageFolder(() => tab.folder(), [TOP, tab.id, name], { write: writeInWorker, estimate })
  const disk: Disk = {
    restore: () => folder.restore(),
    write: (blocks) => folder.write(blocks),
    roomBytes: () => folder.roomBytes(),
    async remove() {
      await folder.remove().finally(() => tab.closePage(name))
    },
  }
  return disk
}

let writer: { worker: Worker; waiting: Map<number, (written: Written) => void> } | null = null
let writings = 0

/** One worker writes for all pages of the tab. */
async function writeInWorker(path: readonly string[], bytes: Bytes): Promise<File> {
  const { worker, waiting } = (writer ??= startWriter())
  const writing: Writing = { id: writings++, path, bytes }
  const written = await new Promise<Written>((resolve) => {
    waiting.set(writing.id, resolve)
    worker.postMessage(writing, [bytes.buffer])
  })
  if ('file' in written) return written.file
  throw new DOMException(written.message, written.name)
}

function startWriter(): NonNullable<typeof writer> {
  const worker = new Worker(new URL('./writer.ts', import.meta.url), { type: 'module' })
  const waiting = new Map<number, (written: Written) => void>()
  worker.addEventListener('message', ({ data }: MessageEvent<Written>) => {
    waiting.get(data.id)?.(data)
    waiting.delete(data.id)
  })
  // It could not be loaded, or broke: whoever waits must not wait for ever.
  worker.addEventListener('error', () => {
    for (const [id, resolve] of waiting) resolve({ id, name: 'InvalidStateError', message: 'the writer has ended' })
    waiting.clear()
    writer = null
  })
  return { worker, waiting }
}
