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

  /** Where the complete file is. It leaves the folder, so that another download can have its name. */
  async path() {
    const saved = path.join(this.#folder, this.#name)
    const isComplete = () => existsSync(saved) && statSync(saved).size > 0 && !readdirSync(this.#folder).some((name) => PARTIAL.test(name))
    await waitUntil(isComplete, `the download of ${this.#name} is complete`, DOWNLOAD_MS)
    const kept = path.join(newFolder(), this.#name)
    renameSync(saved, kept)
    return kept
  }
}
