import type { Connection } from '@watchfire/client/connection'
import { nextTask, parseCid, type BlockStore, type Bytes, type Cid, type Leaf } from '@watchfire/pages/content'
import { publishPrivate, ReadablePage, type PrivatePublication } from '@watchfire/pages/encryption'
import { defaultLimits, type Limits } from '@watchfire/pages/limits'
import { newBrowserBlockStore } from '@watchfire/pages/storage'
import {
  loadDialling,
  loadLive,
  openPage,
  publish,
  traceLoad,
  withDeclinedCalls,
  type PageDeps,
  type Publication,
  type PublishOptions,
} from '@watchfire/pages/swarm'
import { meetCrowd } from '../crowd/crowds.ts'
import { keepApp, keptNeighbours } from '../service-worker/keep-app.ts'
import { isAddressHidden } from '../ui/hidden-address.ts'
import { isLinkedElsewhere, noteNeighbours, serversToJoin } from '../ui/other-servers.ts'
import { COPIED_BYTES_MAX, type PageFile, type ShareOptions } from '../ui/site.ts'

/** Everything that pages of the swarm need. It is loaded when a page is opened or about to be shared. */
export { fetchFirst, follow } from './page-signals.ts'

export interface SwarmDeps {
  readonly connection: Connection
  readonly limits: Limits
}

/** A page that was created here. */
export interface Shared {
  readonly page: ReadablePage
  /** A copy of its blocks on the browser's disk, which a reload of the tab finds. */
  readonly copy: BlockStore | null
  /** Whether the page is there after a reload of its only tab. */
  readonly survivesReload: boolean
}

/** Creates a page of these files, and serves it. */
export async function share(files: readonly PageFile[], options: ShareOptions, deps: SwarmDeps): Promise<Shared> {
  const { signal, onProgress, sealed, live, emptyFolders = [], isDirectory } = options
  noteServer(deps.limits)
  const { pageBytesMax } = deps.limits
  const isCopied = files.reduce((sum, { blob }) => sum + blob.size, 0) <= COPIED_BYTES_MAX
  const blocks: CopiedBlock[] = []
  const publishing: PublishOptions = {
    pageBytesMax,
    signal,
    emptyFolders,
    ...(isCopied ? { onBlock: (cid, block) => blocks.push([cid, block]) } : {}),
    ...(isDirectory === undefined ? {} : { directory: isDirectory }),
    onProgress: ({ bytesDone }) => onProgress(bytesDone),
  }
  const serve = (publication: Publication) =>
    openPage(publication.root, {
      ...deps,
      ...paths(deps),
      publication,
      peers: meetCrowd,
      at: (look) => serversToJoin(publication.root, look),
    })
  if (live !== undefined) {
    const { publishLive } = await import('@watchfire/pages/live')
    const page = new ReadablePage(serve(await publishLive(live.title, publishing)), null, 'public')
    try {
      for (const entry of live.entries) await page.append(entry, { signal })
      signal.throwIfAborted()
    } catch (error) {
      // Nobody has its link, and its editor is shown again.
      page.close()
      throw error
    }
    return { page, copy: null, survivesReload: true }
  }
  // Nobody has the link of a page before a reload of its tab finds it.
  const served = async (publication: Publication, key: string | null, content: PrivatePublication['content'] | 'public') => {
    const page = new ReadablePage(serve(publication), key, content)
    const copy = isCopied ? await copyOf(publication.root, blocks, pageBytesMax) : null
    return { page, copy, survivesReload: copy !== null }
  }
  if (sealed === undefined) {
    const publication = await publish(files, publishing)
    // The page of very many files is opened in another task than the last of their blocks are made.
    await nextTask()
    return served(publication, null, 'public')
  }
  const publication = await publishPrivate(files, { ...publishing, name: sealed.name })
  return served(publication, publication.key, publication.content)
}

type CopiedBlock = readonly [Cid, Bytes | Leaf]

/** Writes the blocks of a page that was created here to the browser's disk, as if they were received. `null`: there is no room for all. */
async function copyOf(root: string, blocks: readonly CopiedBlock[], bytesMax: number): Promise<BlockStore | null> {
  const copy = newBrowserBlockStore(parseCid(root), bytesMax, (milliseconds, callback) => {
    const timer = setTimeout(callback, milliseconds)
    return () => clearTimeout(timer)
  })
  for (const block of blocks) copy.put(...block)
  if (await copy.flush()) return copy
  copy.clear()
  return null
}

/** Opens a page of at most `bytesMax` bytes. */
export function open(cid: string, bytesMax: number, key: string | null, deps: SwarmDeps): ReadablePage {
  const { limits } = deps
  noteServer(limits, isLinkedElsewhere(cid))
  const at: PageDeps['at'] = (look) => serversToJoin(cid, look)
  const pageBytesMax = Math.min(bytesMax, limits.pageBytesMax)
  const how = { ...paths(deps), limits: { ...limits, pageBytesMax }, live: loadLive, trace: traceLoad, peers: meetCrowd, at }
  return new ReadablePage(openPage(cid, how), key)
}

/**
 * Notes the neighbours of this server. If pages can be at other servers, the app is kept for the time when this one is gone. If it is gone,
 * its neighbours are those that were kept with the app.
 */
function noteServer(limits: Limits, isLinked = false): void {
  const isGone = limits === defaultLimits
  noteNeighbours(isGone ? keptNeighbours() : limits.neighbours)
  if (!isGone) keepApp(limits.neighbours, isLinked)
}

/** The paths to peers. If the person hides the address of this browser, it makes no direct connections. */
function paths({ connection }: SwarmDeps): Pick<PageDeps, 'connection' | 'direct'> {
  return isAddressHidden.peek() ? { connection: withDeclinedCalls(connection), direct: null } : { connection, direct: loadDialling }
}
