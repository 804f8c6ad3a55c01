import type { Listing, LiveEntry, LiveFeed } from '@watchfire/pages'
import { shownName } from '@watchfire/pages/messages'
import { text } from './messages/element.ts'
import { render, renderText, serverLink, type Readable, type Rendered } from './render.ts'

/** The newest entries are shown. The link to the server's own view shows all. */
const SHOWN_ENTRIES_MAX = 50

/** A live page as its view needs it. */
export interface ReadableLive extends Readable {
  live(): LiveFeed | null
  readonly state: { readonly phase: string }
}

interface Row {
  readonly node: HTMLLIElement
  /** `null` until the content of the entry is here, or an error is shown in its place. */
  filled: Promise<Rendered | null> | null
}

/** The entries of a live page in a document, the newest first. Call `update` when the page has changed. */
export class LiveView implements Rendered {
  readonly node = document.createElement('section')
  readonly #page: ReadableLive
  readonly #address: string
  readonly #notice = document.createElement('p')
  readonly #list = document.createElement('ol')
  readonly #more = document.createElement('p')
  readonly #rows = new Map<number, Row>()
  #isDisposed = false

  /** `address`: the page on its server. */
  constructor(page: ReadableLive, address: string) {
    this.#page = page
    this.#address = address
    const heading = document.createElement('h2')
    heading.textContent = shownName(page.live()?.title ?? '') || text('live')
    heading.dir = 'auto'
    this.#notice.role = 'alert'
    this.#notice.hidden = true
    this.#list.reversed = true
    this.#more.append(serverLink(address))
    this.#more.hidden = true
    this.node.append(heading, this.#notice, this.#list, this.#more)
    this.update()
  }

  update(): void {
    const feed = this.#page.live()
    if (feed === null || this.#isDisposed) return
    this.#warn(feed)
    const shown = feed.entries.slice(-SHOWN_ENTRIES_MAX)
    this.#more.hidden = shown.length === feed.entries.length
    const isShown = new Set(shown.map(({ number }) => number))
    for (const number of this.#rows.keys()) if (!isShown.has(number)) this.#remove(number)
    for (const entry of shown) if (!this.#rows.has(entry.number)) this.#insert(entry)
    const unfilled = shown.filter(({ number }) => this.#rows.get(number)?.filled === null)
    if (unfilled.length === 0) return
    const listing = this.#page.listing()
    if (listing !== null) for (const entry of unfilled) this.#fill(entry, listing.files)
  }

  dispose(): void {
    this.#isDisposed = true
    for (const number of [...this.#rows.keys()]) this.#remove(number)
  }

  #warn({ splitAt, invalidAt }: LiveFeed): void {
    const end = splitAt ?? invalidAt
    this.#notice.hidden = end === null
    if (end !== null) this.#notice.textContent = text(splitAt === null ? 'invalid' : 'split', { number: `${end}` })
  }

  #insert({ number, timeMs }: LiveEntry): void {
    const node = document.createElement('li')
    node.value = number
    const at = new Date(timeMs)
    // The time is a claim of the publisher, and can be no date.
    if (!Number.isNaN(at.getTime())) {
      const time = node.appendChild(document.createElement('time'))
      time.dateTime = at.toISOString()
      time.textContent = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
    }
    // Entries of a late reader come in any order.
    const next = [...this.#rows.keys()].filter((other) => other < number).sort((a, b) => b - a)[0]
    this.#list.insertBefore(node, (next === undefined ? null : this.#rows.get(next)?.node) ?? null)
    this.#rows.set(number, { node, filled: null })
  }

  /** Shows the content of an entry once its files are known. */
  #fill(entry: LiveEntry, files: Listing['files']): void {
    const row = this.#rows.get(entry.number)
    const prefix = `${entry.path}/`
    const inFolder = files.filter(({ path }) => path.startsWith(prefix))
    const isFile = files.some(({ path }) => path === entry.path)
    // A folder is listed when all of it is here.
    if (row === undefined || !(isFile || (inFolder.length > 0 && this.#page.state.phase === 'complete'))) return
    const rendering = isFile ? this.#renderFile(entry) : this.#renderFolder(prefix, inFolder)
    row.filled = rendering.then(
      (rendered) => this.#show(row, entry.number, rendered),
      (reason: unknown) => {
        row.node.append(reason instanceof Error ? reason.message : String(reason))
        return null
      },
    )
  }

  async #renderFile({ path, form, name }: LiveEntry): Promise<Rendered> {
    if (form === 'text') return renderText(await this.#page.file(path), this.#address)
    const file = { path: name, size: null, complete: true }
    return render(
      { listing: () => ({ files: [file], links: 0, hasNames: true, isFinal: true }), file: () => this.#page.file(path) },
      this.#address,
    )
  }

  #renderFolder(prefix: string, files: Listing['files']): Promise<Rendered> {
    const inside = files.map((file) => ({ ...file, path: file.path.slice(prefix.length) }))
    const folder: Readable = {
      listing: () => ({ files: inside, links: 0, hasNames: true, isFinal: true }),
      file: (path) => this.#page.file(`${prefix}${path}`),
    }
    return render(folder, this.#address)
  }

  #show(row: Row, number: number, rendered: Rendered): Rendered | null {
    if (this.#rows.get(number) !== row) {
      rendered.dispose()
      return null
    }
    row.node.append(rendered.node)
    return rendered
  }

  #remove(number: number): void {
    const row = this.#rows.get(number)
    this.#rows.delete(number)
    row?.node.remove()
    void row?.filled?.then((rendered) => rendered?.dispose())
  }
}
