import { part } from '@watchfire/pages/messages'

export const text = part('element', {
  save: 'Save "{name}" ({size})',
  nameless: 'Unnamed file',
  empty: 'This file is empty.',
  frame: 'The page, without its scripts',
  live: 'Live page',
  split: 'This page has forked at entry {number}: its key has signed two different entries with this number. Nothing is added any more.',
  invalid: 'Entry {number} is not valid, so the page ends before it.',
  open: 'Open this page on {host}',
  silent: 'The server {host} does not answer. It is tried again.',
  refused: 'The server {host} does not accept connections from this site.',
  rejected: 'The server {host} rejects the page: {reason}.',
})
