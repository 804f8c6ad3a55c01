import { publishPrivate } from './encryption/index.ts'
import { cutName, linkedName, NAME_BYTES_MAX } from './links/names.ts'
import { links as text } from './messages/links.ts'
import type { LinkedPage, PageServer } from './server.ts'
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
    return server.join({ cid: publication.root, filename, file: null, key: publication.key }, { publication, content: publication.content })
  }
  const publication = await publish(sources, options)
  return server.join({ cid: publication.root, filename, file: null, key: null }, { publication, content: 'public' })
}

async function shareLive(server: PageServer, sources: readonly Source[], options: ShareOptions): Promise<LinkedPage> {
  if (options.private) throw new Error(text('sealedLive'))
  const { publishLive } = await import('./swarm/live/index.ts')
  const publication = await publishLive(options.name ?? '', options)
  const page = await server.join({ cid: publication.root, filename: null, file: null, key: null }, { publication, content: 'public' })
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
