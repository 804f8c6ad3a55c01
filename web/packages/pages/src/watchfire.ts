import { pageOfLink } from './links/page-link.ts'
import { type LinkedPage, PageServer } from './server.ts'
import type { PublishOptions, Source } from './swarm/api.ts'

export interface ShareOptions extends PublishOptions {
  /** Encrypts the files. The key is in the link of the page. */
  readonly private?: boolean
  /** Makes a page to which `append` adds entries. Each file is an entry. A live page cannot be private. */
  readonly live?: boolean
  /** The title of a live page, or the name of another page in its link. Default: the name of the only file. */
  readonly name?: string
}

/** A Watchfire server, for programs that open and share pages by their links. */
export class Watchfire extends PageServer {
  /**
   * Opens the page of a link of this server, or of a CID. Rejects with a sentence for people if it is neither. If the key does not open a
   * private page, `file` of the page rejects with a `PrivateError`. `at`: the origins of further servers at which the page may be.
   */
  async open(linkOrCid: string, options: { readonly key?: string | null; readonly at?: readonly string[] } = {}): Promise<LinkedPage> {
    const place = pageOfLink(linkOrCid, new URL(this.address).origin)
    return this.join({ ...place, key: options.key ?? place.key }, null, options.at)
  }

  /** Shares files from this tab until the page is closed. Rejects with a `ContentError` if they cannot be a page. */
  async share(files: Iterable<File | Source>, options: ShareOptions = {}): Promise<LinkedPage> {
    const [{ share }, { pageBytesMax }] = await Promise.all([import('./share.ts'), this.limits])
    return share(this, files, { pageBytesMax, ...options })
  }
}
