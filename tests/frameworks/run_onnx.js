// SPDX-License-Identifier: Apache-2.0
//
// Runs y = x * W and prints y's bytes in hex.  node run_onnx.js MODULE MODEL
const [, , module_path, model] = process.argv;
const ort = require(module_path);

(async () => {
  const session = await ort.InferenceSession.create(model);
  const rows = session.inputMetadata ? session.inputMetadata[0].shape[1] : undefined;
  const x = Float32Array.from({ length: rows }, (_, i) => (i % 17) / 16 - 0.5);
  const { y } = await session.run({ x: new ort.Tensor('float32', x, [1, rows]) });
  if (!y.data.some((value) => value !== 0) || !y.data.every(Number.isFinite)) throw new Error('no sensible result');
  console.log(Buffer.from(y.data.buffer, y.data.byteOffset, y.data.byteLength).toString('hex'));
})().catch((error) => { console.error(error); process.exit(1); });
