/** The store for received blocks of a page: on the browser's disk, for as long as the tab lives. */
import { dagBytesMax, type BlockStore, type Cid } from '../content/index.ts'
import { DiskBlockStore } from './disk-block-store.ts'
import { hadFolder } from './tab-folder.ts'

/** Makes the store for the blocks of a page. */
export type MakeBlockStore = (
  root: Cid,
  pageBytesMax: number,
  after: (milliseconds: number, callback: () => void) => () => void,
) => BlockStore

/** On disk if the browser has one, otherwise in memory. With the blocks of the page that this tab had before a reload. */
export const browserBlockStore: MakeBlockStore = (...of) => newStore(of, hasLeftovers())

/** The same for a page that this tab begins, so that nothing can be left of it. */
export const newBrowserBlockStore: MakeBlockStore = (...of) => newStore(of, false)

function newStore([root, pageBytesMax, after]: Parameters<MakeBlockStore>, hasLeftovers: boolean): BlockStore {
  return new DiskBlockStore({
    bytesMax: dagBytesMax(pageBytesMax),
    // Loaded when there is something to write or to restore.
    open: () => import('./browser-disk.ts').then((disk) => disk.openDisk(root.key)),
    hasLeftovers,
    after,
  })
}

/** Whether this tab had a folder when it stored something first. */
let had: boolean | null = null

/** Decided once: what this tab stores later is not from before a reload, and a page that waits for the disk opens later. */
function hasLeftovers(): boolean {
  try {
    had ??= hadFolder(sessionStorage)
    return had
  } catch {
    return false
  }
}
