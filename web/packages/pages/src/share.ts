import { publishPrivate } from './encryption/index.ts'
import { cutName, linkedName, NAME_BYTES_MAX } from './links/names.ts'
import { links as text } from './messages/links.ts'
import type { LinkedPage, OwnPage, PageServer } from './server.ts'
import type { Source } from './swarm/api.ts'
import { publish, shapeOf } from './swarm/publish.ts'
import type { ShareOptions } from './watchfire.ts'

/** Makes a page of files and joins it. */
export async function share(server: PageServer, files: Iterable<File | Source>, options: ShareOptions): Promise<LinkedPage> {
  const sources = [...files].map(sourceOf)
  if (options.live) return shareLive(server, sources, options)
  const { first, isDirectory } = shapeOf(sources, options)
  const filename = linkedName(options.name ?? (isDirectory ? null : first.path))
  if (options.private) {
    const publication = await publishPrivate(sources, { ...options, name: filename })
    return join(server, filename, { publication, content: publication.content }, publication.key)
  }
  return join(server, filename, { publication: await publish(sources, options), content: 'public' })
}

function join(server: PageServer, filename: string | null, own: OwnPage, key: string | null = null): Promise<LinkedPage> {
  return server.join({ cid: own.publication.root, filename, file: null, key }, own)
}

async function shareLive(server: PageServer, sources: readonly Source[], options: ShareOptions): Promise<LinkedPage> {
  if (options.private) throw new Error(text('sealedLive'))
  const live = await import('./swarm/live/index.ts')
  const publication = await live.publishLive(options.name ?? '', options)
  const page = await join(server, null, { publication, content: 'public' })
  try {
    for (const { path, blob } of sources) {
      const name = cutName(path.replace(/^.*\//s, ''), NAME_BYTES_MAX)
      await page.append({ form: 'file', name, sources: [{ path: name, blob }] }, options)
    }
  } catch (error) {
    // Nobody has its link.
    page.close()
    throw error
  }
  return page
}

/** A file that was chosen with its folder has a path. */
function sourceOf(file: File | Source): Source {
  return 'blob' in file ? file : { path: file.webkitRelativePath || file.name, blob: file }
}
