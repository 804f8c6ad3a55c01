// The downloads of a browser as files in a folder, for browsers whose protocol has no event for all of them.

import { existsSync, readdirSync, renameSync, statSync } from 'node:fs'
import path from 'node:path'

import { waitUntil } from '../deadlines.mjs'
import { newFolder } from '../folders.mjs'

/** The endings of files that are not complete: of Firefox, and of WebKit. */
const PARTIAL = /\.(?:part|wkdownload)$/
const DOWNLOAD_MS = 60_000

export class DownloadFolder {
  path = newFolder()

  /** The next download, once the browser has begun it. It has the methods of Playwright's `Download` that the tests use. */
  async next({ timeout = DOWNLOAD_MS } = {}) {
    const earlier = new Set(readdirSync(this.path))
    const begun = () => readdirSync(this.path).find((name) => !earlier.has(name) && !PARTIAL.test(name))
    const name = await waitUntil(begun, 'a download begins', timeout)
    return new FileDownload(this.path, name)
  }
}

class FileDownload {
  #folder
  #name

  constructor(folder, name) {
    this.#folder = folder
    this.#name = name
  }

  suggestedFilename() {
    return this.#name
  }

  /** The reason why the file is not complete, or null. */
  async failure() {
    const end = await waitUntil(() => this.#end(), `the download of ${this.#name} ends`, DOWNLOAD_MS)
    return end === 'gone' ? 'the browser has removed the file' : null
  }

  /** Where the complete file is. It leaves the folder, so that another download can have its name. */
  async path() {
    const failure = await this.failure()
    if (failure !== null) throw new Error(`cannot save ${this.#name}: ${failure}`)
    const saved = path.join(this.#folder, this.#name)
    const kept = path.join(newFolder(), this.#name)
    renameSync(saved, kept)
    return kept
  }

  /** How the download has ended, or null. Until then, Firefox has an empty file of that name beside the partial one. */
  #end() {
    const saved = path.join(this.#folder, this.#name)
    if (readdirSync(this.#folder).some((name) => PARTIAL.test(name))) return null
    if (!existsSync(saved)) return 'gone'
    return statSync(saved).size > 0 ? 'complete' : null
  }
}
