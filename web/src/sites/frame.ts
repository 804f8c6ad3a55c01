import type { SiteFolder } from './folder.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { sites as words } from '../words/sites.ts'
import { readTold, type Show, type Told } from './message.ts'
import { Teller } from './teller.ts'
import { escaped } from './words.ts'

const SHELL = '/.watchfire/shell'
/** How long a site's origin may take to be there. */
const READY_MS = 10_000

/** What becomes of a site's frame. */
export type FrameEvent = { kind: 'ready' } | Exclude<Told, { kind: 'ready' | 'read' }>

/**
 * The document around a site's shell. It stands between the app and the site for its policy: the app lets any site into
 * a frame, this one lets in one, so that its scripts cannot take the frame elsewhere, with what they know in the address.
 */
export function frameDocument(origin: string): string {
  return `<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; frame-src ${origin}">
<style>html, body, iframe { width: 100%; height: 100%; margin: 0; border: 0; display: block }</style>
<iframe title="${escaped(words('frame'))}" src="${origin}${SHELL}" credentialless allow="" referrerpolicy="no-referrer" sandbox="allow-scripts allow-same-origin allow-forms"></iframe>`
}

/** The app's end of a site that is shown: answers what its worker asks, and says where it is. */
export class SiteFrame {
  readonly #origin: string
  readonly #outer: HTMLIFrameElement
  readonly #listen: (event: FrameEvent) => void
  readonly #teller: Teller
  #timer: ReturnType<typeof setTimeout>

  constructor(origin: string, outer: HTMLIFrameElement, folder: SiteFolder<DirectoryFile>, listen: (event: FrameEvent) => void) {
    this.#origin = origin
    this.#outer = outer
    this.#listen = listen
    this.#teller = new Teller(folder, location.origin)
    this.#timer = setTimeout(() => listen({ kind: 'failed', reason: words('noAnswer') }), READY_MS)
    addEventListener('message', this.#hear)
  }

  /** Shows that address in a new frame, with its scripts or without. */
  show(address: string, scripts: boolean): void {
    this.#teller.scripts = scripts
    const message: Show = { kind: 'show', address, scripts }
    this.#shell?.postMessage(message, this.#origin)
  }

  close(): void {
    clearTimeout(this.#timer)
    removeEventListener('message', this.#hear)
  }

  get #shell(): Window | null {
    return this.#outer.contentWindow?.frames[0] ?? null
  }

  readonly #hear = ({ source, origin, data, ports }: MessageEvent): void => {
    if (source === null || source !== this.#shell || origin !== this.#origin) return
    const told = readTold(data)
    if (told === null) return
    if (told.kind === 'read') {
      const [port] = ports
      if (port !== undefined) void this.#teller.answer(told.address).then((answer) => port.postMessage(answer))
      return
    }
    clearTimeout(this.#timer)
    this.#listen(told)
  }
}
