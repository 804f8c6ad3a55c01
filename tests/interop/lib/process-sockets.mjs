// The TCP connections of a process, as the kernel lists them.

import { readFileSync, readdirSync, readlinkSync } from 'node:fs'

const ESTABLISHED = '01'

const portOf = (address) => Number.parseInt(address.split(':')[1], 16)

/** The established IPv4 connections of a process: the two ports of each. */
export function connectionsOf(pid) {
  let inodes
  try {
    inodes = new Set(readdirSync(`/proc/${pid}/fd`).map((fd) => inodeOf(pid, fd)))
  } catch {
    return [] // The process has ended.
  }
  const lines = readFileSync(`/proc/${pid}/net/tcp`, 'utf8').trim().split('\n').slice(1)
  const fields = lines.map((line) => line.trim().split(/\s+/))
  const own = fields.filter(([, , , state, , , , , , inode]) => state === ESTABLISHED && inodes.has(inode))
  return own.map(([, local, remote]) => ({ localPort: portOf(local), remotePort: portOf(remote) }))
}

function inodeOf(pid, fd) {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]
  } catch {
    return undefined // It was closed meanwhile.
  }
}
