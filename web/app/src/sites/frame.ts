import type { SiteFolder } from './folder.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { sites as text } from '../messages/sites.ts'
import { parseShellMessage, type ShowCommand, type ShellMessage } from './protocol.ts'
import { SiteResponder } from './responder.ts'
import { escaped } from './documents.ts'

const SHELL = '/.watchfire/shell'
/** Timeout for loading the shell of a site. */
const READY_MS = 10_000

/** An event of a site's frame. */
export type FrameEvent = { kind: 'ready' } | Exclude<ShellMessage, { kind: 'ready' | 'read' }>

/**
 * The document around a site's shell. The app's own policy allows frames of every site. This document allows only one, so
 * that the site's scripts cannot navigate the frame to another origin and leak data in the URL.
 */
export function frameDocument(origin: string): string {
  return `<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; frame-src ${origin}">
<style>html, body, iframe { width: 100%; height: 100%; margin: 0; border: 0; display: block }</style>
<iframe title="${escaped(text('frame'))}" src="${origin}${SHELL}" credentialless allow="" referrerpolicy="no-referrer" sandbox="allow-scripts allow-same-origin allow-forms"></iframe>`
}

/** The app's side of a site that is shown: answers the requests of its worker, and reports its location. */
export class SiteFrame {
  readonly #origin: string
  readonly #outer: HTMLIFrameElement
  readonly #listen: (event: FrameEvent) => void
  readonly #responder: SiteResponder
  /** Whether the worker of the site has asked for a file. */
  #hasRead = false
  #timer: ReturnType<typeof setTimeout>

  constructor(origin: string, outer: HTMLIFrameElement, folder: SiteFolder<DirectoryFile>, listen: (event: FrameEvent) => void) {
    this.#origin = origin
    this.#outer = outer
    this.#listen = listen
    this.#responder = new SiteResponder(folder, location.origin)
    this.#timer = setTimeout(() => listen({ kind: 'failed', reason: text('noAnswer') }), READY_MS)
    addEventListener('message', this.#onMessage)
  }

  /** Shows a path in a new frame, with or without scripts. */
  show(path: string, scripts: boolean): void {
    this.#responder.scripts = scripts
    const command: ShowCommand = { kind: 'show', path, scripts }
    this.#shell?.postMessage(command, this.#origin)
  }

  close(): void {
    clearTimeout(this.#timer)
    removeEventListener('message', this.#onMessage)
  }

  get #shell(): Window | null {
    return this.#outer.contentWindow?.frames[0] ?? null
  }

  readonly #onMessage = ({ source, origin, data, ports }: MessageEvent): void => {
    if (source === null || source !== this.#shell || origin !== this.#origin) return
    const message = parseShellMessage(data)
    if (message === null) return
    if (message.kind === 'read') {
      this.#hasRead = true
      const [port] = ports
      if (port !== undefined) void this.#responder.read(message.path, message.range).then((reply) => port.postMessage(reply))
      return
    }
    clearTimeout(this.#timer)
    // In WebKit, workers get no requests of frames in the shell: the first document then comes from the server.
    const isUnanswered = message.kind === 'lost' && !this.#hasRead
    this.#listen(isUnanswered ? { kind: 'failed', reason: text('noAnswer') } : message)
  }
}
