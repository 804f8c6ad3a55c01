// The downloads of a browser as files in a folder, for browsers whose protocol has no event for all of them.

import { existsSync, readdirSync, readlinkSync, realpathSync, renameSync, statSync } from 'node:fs'
import path from 'node:path'

import { waitUntil } from '../deadlines.mjs'
import { newFolder } from '../folders.mjs'

/** The endings of files that are not complete: of Firefox, and of WebKit. */
const PARTIAL = /\.(?:part|wkdownload)$/
const DOWNLOAD_MS = 60_000

export class DownloadFolder {
  path = newFolder()
  /** The names of the downloads that have failed, as far as the browser reports it. */
  #failed = new Set()

  /** The browser has begun a download of that name. */
  noteBegin(name) {
    this.#failed.delete(name)
  }

  /** The download of that name has failed. A browser that can continue it keeps what has arrived. */
  noteFailure(name) {
    this.#failed.add(name)
  }

  hasFailed(name) {
    return this.#failed.has(name)
  }

  /** The names of the files that are there, except for some. */
  names(except = new Set()) {
    return readdirSync(this.path).filter((name) => !except.has(name))
  }

  /** The next download, once the browser has begun it. It has the methods of Playwright's `Download` that the tests use. */
  async next({ timeout = DOWNLOAD_MS } = {}) {
    const earlier = new Set(this.names())
    const name = await waitUntil(() => this.#begun(earlier), 'a download begins', timeout)
    return new FileDownload(this, name, earlier)
  }

  /**
   * The name of a download that has begun. Before its partial file, Firefox makes an empty file with a random name and removes
   * it, to learn whether such a file would be a program. So an empty file is a download only beside a partial one, which at
   * first has the random name.
   */
  #begun(earlier) {
    const names = this.names(earlier)
    const isPartial = names.some((name) => PARTIAL.test(name))
    const isDownload = (name) => !PARTIAL.test(name) && !names.includes(`${name}.part`) && (isPartial || this.#size(name) > 0)
    return names.find(isDownload)
  }

  #size(name) {
    return statSync(path.join(this.path, name), { throwIfNoEntry: false })?.size ?? 0
  }
}

class FileDownload {
  #folder
  #name
  #earlier

  /** `earlier` are the files that were there before it began. */
  constructor(folder, name, earlier) {
    this.#folder = folder
    this.#name = name
    this.#earlier = earlier
  }

  suggestedFilename() {
    return this.#name
  }

  /** The reason why the file is not complete, or null. */
  async failure() {
    const end = await waitUntil(() => this.#end(), `the download of ${this.#name} ends`, DOWNLOAD_MS)
    if (end === 'failed') return 'the browser reports that it failed'
    return end === 'gone' ? 'the browser has removed the file' : null
  }

  /** Where the complete file is. It leaves the folder, so that another download can have its name. */
  async path() {
    const failure = await this.failure()
    if (failure !== null) throw new Error(`cannot save ${this.#name}: ${failure}`)
    const saved = path.join(this.#folder.path, this.#name)
    const kept = path.join(newFolder(), this.#name)
    renameSync(saved, kept)
    return kept
  }

  /**
   * How the download has ended, or null. Until then, Firefox has an empty file of that name beside the partial one. WebKit
   * writes a download that a service worker answers without a partial file, so it is complete when no process has it open.
   */
  #end() {
    if (this.#folder.hasFailed(this.#name)) return 'failed'
    if (this.#folder.names(this.#earlier).some((name) => PARTIAL.test(name))) return null
    const saved = path.join(this.#folder.path, this.#name)
    if (!existsSync(saved)) return 'gone'
    return statSync(saved).size > 0 && !isOpen(saved) ? 'complete' : null
  }
}

/** Whether a process has a file open. */
function isOpen(name) {
  const file = realpathSync(name)
  const folders = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => `/proc/${pid}/fd`)
  return folders.some((folder) => linksIn(folder).includes(file))
}

/** The files that a process has open; none of a process that has ended meanwhile. */
function linksIn(folder) {
  try {
    return readdirSync(folder).map((name) => linkOf(path.join(folder, name)))
  } catch {
    return []
  }
}

function linkOf(file) {
  try {
    return readlinkSync(file)
  } catch {
    return null
  }
}
