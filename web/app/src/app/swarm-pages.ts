import type { Connection } from '@watchfire/client/connection'
import { nextTask } from '@watchfire/pages/content'
import { publishPrivate, ReadablePage } from '@watchfire/pages/encryption'
import type { Limits } from '@watchfire/pages/limits'
import { loadDialling, loadLive, openPage, publish, traceLoad, type Publication, type PublishOptions } from '@watchfire/pages/swarm'
import type { PageFile, ShareOptions } from '../ui/site.ts'

/** Everything that pages of the swarm need. It is loaded when a page is opened or about to be shared. */
export { fetchFirst, follow } from './page-signals.ts'

export interface SwarmDeps {
  readonly connection: Connection
  readonly limits: Limits
}

/** A page that was created here. `key` is that of a private page. */
export interface Shared {
  readonly page: ReadablePage
  readonly key: string | null
}

/** Creates a page of these files, and serves it. */
export async function share(files: readonly PageFile[], options: ShareOptions, deps: SwarmDeps): Promise<Shared> {
  const { signal, onProgress, sealed, live, emptyFolders = [], isDirectory } = options
  const publishing: PublishOptions = {
    pageBytesMax: deps.limits.pageBytesMax,
    signal,
    emptyFolders,
    ...(isDirectory === undefined ? {} : { directory: isDirectory }),
    onProgress: ({ bytesDone }) => onProgress(bytesDone),
  }
  const serve = (publication: Publication) => openPage(publication.root, { ...deps, direct: loadDialling, publication })
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
    return { page, key: null }
  }
  if (sealed === undefined) {
    const publication = await publish(files, publishing)
    // The page of very many files is opened in another task than the last of their blocks are made.
    await nextTask()
    return { page: new ReadablePage(serve(publication), null, 'public'), key: null }
  }
  const publication = await publishPrivate(files, { ...publishing, name: sealed.name })
  const { key, content } = publication
  return { page: new ReadablePage(serve(publication), key, content), key }
}

/** Opens a page of at most `bytesMax` bytes. */
export function open(cid: string, bytesMax: number, key: string | null, { connection, limits }: SwarmDeps): ReadablePage {
  const pageBytesMax = Math.min(bytesMax, limits.pageBytesMax)
  return new ReadablePage(
    openPage(cid, { connection, limits: { ...limits, pageBytesMax }, direct: loadDialling, live: loadLive, trace: traceLoad }),
    key,
  )
}
