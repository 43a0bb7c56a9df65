#include "admin/nvme_admin.hpp"

namespace nvmaint::nvme {
namespace {

class FaultyAdmin final : public NvmeAdmin {
  public:
    using Fails = std::function<std::unique_ptr<Error>(std::uint64_t)>;
    FaultyAdmin(std::unique_ptr<NvmeAdmin> inner, Fails fails)
        : inner_(std::move(inner)), fails_(std::move(fails)) {}

    Result<Bytes> identify_controller(const std::string& controller) override {
        const std::unique_ptr<Error> error = fails_(calls_++);
        return error ? Result<Bytes>(*error) : inner_->identify_controller(controller);
    }

    Result<Bytes> identify_namespace(const std::string& controller, std::uint32_t nsid) override {
        const std::unique_ptr<Error> error = fails_(calls_++);
        return error ? Result<Bytes>(*error) : inner_->identify_namespace(controller, nsid);
    }

    Result<Bytes> get_log(const std::string& controller, std::uint8_t lid,
                          std::uint32_t length) override {
        const std::unique_ptr<Error> error = fails_(calls_++);
        return error ? Result<Bytes>(*error) : inner_->get_log(controller, lid, length);
    }

  private:
    std::unique_ptr<NvmeAdmin> inner_;
    Fails fails_;
    std::uint64_t calls_ = 0;
};

} // namespace

std::unique_ptr<NvmeAdmin>
make_faulty_admin(std::unique_ptr<NvmeAdmin> inner,
                  std::function<std::unique_ptr<Error>(std::uint64_t call)> fails) {
    return std::make_unique<FaultyAdmin>(std::move(inner), std::move(fails));
}

} // namespace nvmaint::nvme
