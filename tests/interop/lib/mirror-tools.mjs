// Container tools that Debian does not have. The versions are in mirror/tools/*/go.mod.

import { mkdirSync, rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'

import { GoPrograms } from './go-programs.mjs'

const inTools = (name, module, packages) =>
  new GoPrograms({ folder: `mirror/tools/${name}`, module, packages, keptIn: `mirror-tools/${name}` })

const modules = [
  inTools('containerd', 'github.com/containerd/containerd/v2', {
    containerd2: 'cmd/containerd',
    ctr2: 'cmd/ctr',
    'containerd-shim-runc-v2': 'cmd/containerd-shim-runc-v2',
  }),
  inTools('crane', 'github.com/google/go-containerregistry', { crane: 'cmd/crane' }),
  inTools('distribution', 'github.com/distribution/distribution/v3', { registry3: 'cmd/registry' }),
  inTools('olareg', 'github.com/olareg/olareg', { olareg: 'cmd/olareg' }),
  inTools('regctl', 'github.com/regclient/regclient', { regctl: 'cmd/regctl' }),
]
const [containerd, crane, distribution, olareg, regctl] = modules
/** The snapshotter that starts containers before their image is there, and an application that such a container runs. */
const stargz = new GoPrograms({
  folder: 'mirror/tools/stargz',
  module: 'github.com/containerd/stargz-snapshotter',
  packages: { stargz: '.', application: './application' },
  keptIn: 'mirror-tools/stargz',
  inputs: ['main.go', 'application/main.go'],
})

/** The reason why the tests with these tools cannot run here; false when they can. */
export const whyNoMirrorTools = modules.map((module) => module.whyMissing).find(Boolean) ?? false

/** The paths of the programs, which `buildMirrorTools` builds, and `buildLazyTools`. */
export const mirrorTools = {
  application: stargz.path('application'),
  containerd2: containerd.path('containerd2'),
  ctr2: containerd.path('ctr2'),
  crane: crane.path('crane'),
  olareg: olareg.path('olareg'),
  registry3: distribution.path('registry3'),
  regctl: regctl.path('regctl'),
  shim: containerd.path('containerd-shim-runc-v2'),
  stargz: stargz.path('stargz'),
}

/** Builds the tools unless they exist: takes minutes, most of them for containerd and the registry. */
export async function buildMirrorTools() {
  for (const module of modules) await module.build()
}

/** The reason why containerd 2 cannot run here; false when it can. */
export const whyNoContainerd2 = containerd.whyMissing

/** Builds containerd 2 alone unless it exists. */
export function buildContainerd2() {
  return containerd.build()
}

/** The reason why olareg cannot run here; false when it can. */
export const whyNoOlareg = olareg.whyMissing

/** Builds olareg alone unless it exists. */
export function buildOlareg() {
  return olareg.build()
}

/** The reason why containers cannot be started lazily here; false when they can. */
export const whyNoLazyTools = containerd.whyMissing || stargz.whyMissing

/** Builds containerd 2 and the stargz snapshotter unless they exist: takes minutes. */
export async function buildLazyTools() {
  for (const module of [containerd, stargz]) await module.build()
}

/** Builds these, and links to them from the folder where an experiment expects them. */
export async function linkLazyTools(folder) {
  await buildLazyTools()
  mkdirSync(folder, { recursive: true })
  for (const name of ['containerd2', 'ctr2', 'shim', 'stargz', 'application']) {
    const link = path.join(folder, path.basename(mirrorTools[name]))
    rmSync(link, { force: true })
    symlinkSync(mirrorTools[name], link)
  }
}
