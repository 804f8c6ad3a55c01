/** Where the blocks of a page that comes from others are kept: on the browser's own disk, for as long as the tab lives. */
import { dagBytesMax, type Blocks, type Cid } from '../content/index.ts'
import { DiskBlocks } from './disk-blocks.ts'
import { hadFolder } from './tab.ts'

export { DiskBlocks, MEMORY_BYTES_MAX, type DiskBlocksDeps } from './disk-blocks.ts'
export type { Disk, OpenDisk, Restored } from './disk.ts'

/** Makes the place for the blocks of a page. */
export type MakeBlocks = (root: Cid, pageBytesMax: number, after: (milliseconds: number, callback: () => void) => () => void) => Blocks

/** On disk where this browser has one to give, else in memory. */
export const browserBlocks: MakeBlocks = (root, pageBytesMax, after) =>
  new DiskBlocks({
    bytesMax: dagBytesMax(pageBytesMax),
    // Fetched when there is something to keep, or to find again.
    open: () => import('./browser.ts').then(({ openDisk }) => openDisk(root.key)),
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
