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

/** On disk if the browser has one, otherwise in memory. */
export const browserBlockStore: MakeBlockStore = (root, pageBytesMax, after) =>
  new DiskBlockStore({
    bytesMax: dagBytesMax(pageBytesMax),
    // Loaded when there is something to write or to restore.
    open: () => import('./browser-disk.ts').then(({ openDisk }) => openDisk(root.key)),
    hasLeftovers: hasLeftovers(),
    after,
  })

function hasLeftovers(): boolean {
  try {
    return hadFolder(sessionStorage)
  } catch {
    return false
  }
}
