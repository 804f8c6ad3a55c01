import { peers } from '../messages/peers.ts'

/** A name for a peer, such as “Blue fox”. It follows from the id alone; two peers may have the same one. */
export function peerName(id: string): string {
  const hash = hashOf(id)
  const adjectives = peers('adjectives').split(' ')
  const animals = peers('animals').split(' ')
  const adjective = adjectives[hash % adjectives.length] ?? ''
  const animal = animals[Math.floor(hash / adjectives.length) % animals.length] ?? ''
  return peers('name', { adjective, animal })
}

/** A name for a person of whom there is no id. */
export function inventName(): string {
  return peerName(crypto.getRandomValues(new Uint32Array(2)).join())
}

/** FNV-1a, with its high bits mixed into the low ones: ids of one server begin alike. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (const letter of text) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193)
  return (hash ^ (hash >>> 15)) >>> 0
}
