import { SNIFFED_BYTES } from '../render/kind.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { sites as words } from '../words/sites.ts'
import type { SiteFolder } from './folder.ts'
import { mediaType } from './media-type.ts'
import type { ReadAnswer } from './message.ts'
import { absentWords, elsewhereWords, folderWords } from './words.ts'

/** Reads of a site that are answered at a time, and that wait for their turn; one more is refused. */
const READS_AT_ONCE = 16
const READS_WAITING_MAX = 1000

const HTML = 'text/html; charset=utf-8'

/** Answers what a site's worker asks, out of the page that this tab has open. */
export class Teller {
  readonly #folder: SiteFolder<DirectoryFile>
  readonly #app: string
  readonly #waiting: (() => void)[] = []
  #reading = 0
  /** Whether documents may run scripts from now on. */
  scripts = false

  constructor(folder: SiteFolder<DirectoryFile>, app: string) {
    this.#folder = folder
    this.#app = app
  }

  async answer(address: string): Promise<ReadAnswer> {
    if (this.#reading >= READS_AT_ONCE) {
      if (this.#waiting.length >= READS_WAITING_MAX) return { kind: 'failed', reason: words('tooMuch') }
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
    this.#reading += 1
    try {
      return await this.#read(address)
    } catch (error) {
      return { kind: 'failed', reason: error instanceof Error ? error.message : String(error) }
    } finally {
      this.#reading -= 1
      this.#waiting.shift()?.()
    }
  }

  async #read(address: string): Promise<ReadAnswer> {
    const found = this.#folder.find(address)
    switch (found.kind) {
      case 'file': {
        const blob = await found.file.blob()
        const head = new Uint8Array(await blob.slice(0, SNIFFED_BYTES).arrayBuffer())
        return this.#file(200, mediaType(found.file.path, head), blob)
      }
      case 'folder-elsewhere':
        return this.#file(200, HTML, new Blob([elsewhereWords(found.address)]))
      case 'folder':
        return this.#file(200, HTML, new Blob([folderWords(found.path, found.names)]))
      case 'absent':
        return this.#file(404, HTML, new Blob([absentWords(found.path)]))
    }
  }

  #file(status: number, type: string, blob: Blob): ReadAnswer {
    return { kind: 'file', status, type, blob, scripts: this.scripts, app: this.#app }
  }
}
