// A folder that the command line shares on a server.

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { Command } from './command-line.mjs'
import { newFolder } from './folders.mjs'

/**
 * Writes files, given by path, into a folder and shares it until the test ends; returns the page's link without a file
 * name. Content of `{ link }` makes a symbolic link. With a `certificate`, which the command must trust, over TLS.
 */
export async function shareFolder(t, server, files, certificate) {
  const folder = newFolder(t)
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(folder, 'site', name)
    mkdirSync(path.dirname(file), { recursive: true })
    if (typeof content.link === 'string') symlinkSync(content.link, file)
    else writeFileSync(file, content)
  }
  const address = `${certificate ? 'https' : 'http'}://localhost:${server.port}`
  const args = ['site', '--to', address, '--listen', '/ip4/127.0.0.1/tcp/0']
  const share = new Command(t, folder, 'share', args, certificate ? { SSL_CERT_FILE: certificate } : {})
  const { cid } = await share.event('shared')
  return { link: `${address}/p/${cid}`, cid, share }
}
