import type { DirectoryFile } from '../ui/site.ts'
import { sites as text } from '../messages/sites.ts'
import { parseRange } from '../service-worker/range.ts'
import type { SiteFolder } from './folder.ts'
import { contentType } from './media-type.ts'
import type { ReadReply } from './protocol.ts'
import { notFoundDocument, folderRedirectDocument, folderListDocument } from './documents.ts'

/** Requests that are answered at a time, and that wait for their turn; a further one is refused. */
const READS_AT_ONCE = 16
const READS_WAITING_MAX = 1000

const HTML = 'text/html; charset=utf-8'

/** Answers the requests of a site's worker from the page that this tab has open. */
export class SiteResponder {
  readonly #folder: SiteFolder<DirectoryFile>
  readonly #app: string
  readonly #waiting: (() => void)[] = []
  #active = 0
  /** Whether documents may run scripts. Applies to later replies. */
  scripts = false

  constructor(folder: SiteFolder<DirectoryFile>, app: string) {
    this.#folder = folder
    this.#app = app
  }

  /** Reads the file at a path: all of it, or the part that a `Range` header names. */
  async read(urlPath: string, range: string | null = null): Promise<ReadReply> {
    if (this.#active >= READS_AT_ONCE) {
      if (this.#waiting.length >= READS_WAITING_MAX) return { kind: 'failed', reason: text('tooMuch') }
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
    this.#active += 1
    try {
      return await this.#find(urlPath, range)
    } catch (error) {
      return { kind: 'failed', reason: error instanceof Error ? error.message : String(error) }
    } finally {
      this.#active -= 1
      this.#waiting.shift()?.()
    }
  }

  async #find(urlPath: string, range: string | null): Promise<ReadReply> {
    const found = this.#folder.find(urlPath)
    switch (found.kind) {
      case 'file': {
        const blob = await found.file.blob()
        return this.#reply(200, await contentType(found.file.path, blob), blob, range)
      }
      case 'redirect':
        return this.#reply(200, HTML, new Blob([folderRedirectDocument(found.urlPath)]))
      case 'folder':
        return this.#reply(200, HTML, new Blob([folderListDocument(found.path, found.names)]))
      case 'absent':
        return this.#reply(404, HTML, new Blob([notFoundDocument(found.path)]))
    }
  }

  #reply(status: number, type: string, whole: Blob, range: string | null = null): ReadReply {
    const { size } = whole
    const part = parseRange(range, size)
    const blob = part === null ? whole : part === 'unsatisfiable' ? new Blob([]) : whole.slice(part.from, part.to)
    return { kind: 'file', status, type, blob, part, size, scripts: this.scripts, app: this.#app }
  }
}
